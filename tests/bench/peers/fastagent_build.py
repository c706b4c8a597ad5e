"""How long an agent with three servers takes to make, on fast-agent-worker and on fast-agent itself: `FOLDER TIMES`.

FOLDER is a team folder whose agent `three` is alone in its module. It prints the milliseconds of each, as JSON. What
fast-agent makes connects to the servers anew; a turn of the worker uses connections that are open.
"""

import asyncio
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any


async def _measure(folder: Path, times: int) -> dict[str, list[float]]:
    hosting, settings, closure, scope, teams = (
        import_module(name)
        for name in (
            "fast_agent_worker.hosting",
            "fast_agent_worker.settings",
            "fast_agent_worker.turns.closure",
            "fast_agent_worker.turns.scope",
            "pallas_teams",
        )
    )
    team = await hosting.host_team(teams.load_team(folder, os.environ), settings.FastAgentSettings.from_env({}))
    [agent] = (it.runtime for it in team.agents if it.definition.agent == "three")
    fast, runtime = agent.prepared.fast, agent.prepared.runtime
    found: dict[str, list[float]] = {"worker": [], "stock": []}
    for _ in range(times):
        began = time.perf_counter()
        instance = await fast._instantiate_agent_instance(runtime)
        found["stock"].append(1000 * (time.perf_counter() - began))
        offered = len((await instance.agents["three"].list_tools()).tools)
        await fast._dispose_agent_instance(runtime, instance)
        turn = scope.TurnScope(None, None, config=agent.config)
        made = closure.Closure()
        began = time.perf_counter()
        three: Any = await made.make(agent.prepared, agent.name, agent.shared, turn, None)
        found["worker"].append(1000 * (time.perf_counter() - began))
        assert offered == len((await three.list_tools()).tools)
        made.dispose()
        await closure.all_disposed()
    await team.shared.close()
    return found


def main() -> None:
    """Measure and print."""
    output = os.dup(1)
    os.dup2(2, 1)
    found = asyncio.run(_measure(Path(sys.argv[1]), int(sys.argv[2])))
    with os.fdopen(output, "w", encoding="utf-8") as out:
        json.dump(found, out)


if __name__ == "__main__":
    main()
