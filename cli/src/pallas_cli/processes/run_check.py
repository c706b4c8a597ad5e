"""Makes the fast-agent agents of a folder in a process of its own, within bounds, and returns which cannot be made."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_cli.processes.environment import team_environment
from pallas_cli.processes.fast_agent import fast_agent_python, finished

if TYPE_CHECKING:
    from pallas_teams import Fault, TeamFolder

SECONDS = 60.0
"""How long the modules of a folder may take to be imported."""

_LATE = f'its team\'s modules were not imported within {SECONDS:g} s; put what runs behind: if __name__ == "__main__":'


def run_faults(teams: "Sequence[TeamFolder]") -> "Iterator[Fault]":
    """A fault for each fast-agent agent that cannot be made.

    Raises:
        Refused: fast-agent cannot be installed.
    """
    from pallas_teams import Fault

    for team in teams:
        if any(agent.kind == "fast-agent" for agent in team.agents.values()):
            for agent, reason in _failed_agents(team.folder).items():
                known = team.agents.get(agent)
                source = (known.card or known.module) if known else None
                file = source if isinstance(source, Path) else team.folder
                yield Fault(str(file), 0, 0, f"agents.{agent}", reason)


def _failed_agents(folder: Path) -> Mapping[str, str]:
    python = fast_agent_python(os.environ, lambda line: print(line, file=sys.stderr))
    command = (str(python), "-m", "fast_agent_worker.check", str(folder))
    try:
        code, output = asyncio.run(finished(command, team_environment(), SECONDS))
    except TimeoutError:
        return {"…": _LATE}
    if code:
        return {"…": f"the folder cannot be loaded; the process ended with {code}"}
    failed: dict[str, str] = json.loads(output)["failed"]
    return failed
