"""Loads a team folder as a worker does, and reports which agents cannot be made or called.

`pallas agents validate --run` starts it in a process of its own, because it runs the team's code. Run as
`python -m fast_agent_worker.check DIR [OTHER...]`, it prints one JSON document. It connects to nothing.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from fast_agent_worker.hosting import host_team
from fast_agent_worker.settings import FastAgentSettings
from pallas_contracts.errors import PallasError
from pallas_teams import load_team


async def _check(folder: Path, *beside: Path) -> dict[str, Any]:
    try:
        team = await host_team(
            load_team(folder, os.environ, beside=beside), FastAgentSettings.from_env({}), connect=False
        )
    except PallasError as error:
        return {"hosted": {}, "failed": {folder.name: error.message}}
    hosted = {
        each.definition.agent: {
            "description": each.definition.description,
            "servers": [server.name for server in each.definition.dependencies],
        }
        for each in team.agents
    }
    await team.shared.close()
    return {"hosted": hosted, "failed": {**team.shared.lacks(), **team.failed}}


def main() -> None:
    """Check the folder that is the first argument; the others are those of other teams."""
    output = os.dup(1)
    os.dup2(2, 1)  # what the team's code prints is no part of the document
    found = asyncio.run(_check(*(Path(folder).absolute() for folder in sys.argv[1:])))
    with os.fdopen(output, "w", encoding="utf-8") as out:
        json.dump(found, out)


if __name__ == "__main__":
    main()
