"""The story of `pallas up --demo` about coding agents: one is created, writes a file, and shows its history."""

import asyncio
from functools import partial
from time import monotonic

from rich.console import Console

from pallas_cli.calling import Document, Show
from pallas_cli.fleet import FleetCalls, fleet_at
from pallas_cli.plain_text import plain_line
from pallas_cli.refused import Refused
from pallas_cli.stack.plan import Plan

_NAME = "papi"
_SPEC = "say I am papi, and I write files"
_TASK = "write hello.txt: Hello from papi"
_PATIENCE = 60.0
_LOOK_AGAIN = 0.25


async def tell_fleet_story(console: Console, plan: Plan) -> bool:
    """Create the agent unless a run before has, give it a task, print what happens. Returns whether it succeeded."""
    print_line = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    since = monotonic()

    def show(line: str) -> None:
        print_line(f"  {monotonic() - since:6.3f} s  {plain_line(line)}")

    console.print("\nA coding agent, in a workspace of the stand-in for Coder", style="bold", highlight=False)
    try:
        async with asyncio.timeout(_PATIENCE), fleet_at(plan.gateway_urls[0], None) as fleet:
            task = await _give_task(fleet, show)
            for line in await _history(fleet, task, show):
                print_line(f"  | {plain_line(line)}")
    except Refused as refusal:
        console.print(f"  {plain_line(refusal.lines[0])}", style="red", markup=False, highlight=False)
        return False
    except TimeoutError:
        console.print(f"  the task has not ended after {_PATIENCE:g} s", style="red", highlight=False)
        return False
    for path in sorted((plan.data / "coder" / "workspaces").glob("*/hello.txt")):
        print_line(f"  | {path}: {path.read_text('utf-8', errors='replace').strip()}")
    return True


async def _give_task(fleet: FleetCalls, show: Show) -> Document:
    """Start the task once the agent is idle: it begins with its spec."""
    if all(it["name"] != _NAME for it in (await fleet.ask("list_agents"))["agents"]):
        created = await fleet.ask("create_agent", show=show, name=_NAME, project="Setup", spec=_SPEC)
        show(created["message"])
    while True:
        if (await fleet.ask("show_agent", agent_name=_NAME))["agent"]["status"] == "idle":
            break
        await asyncio.sleep(_LOOK_AGAIN)
    started = await fleet.ask("start_agent_task", show=show, task_description=_TASK, agent_name=_NAME)
    show(started["message"])
    return started["task"]


async def _history(fleet: FleetCalls, task: Document, show: Show) -> list[str]:
    """The agent's tasks once this one has ended."""
    while True:
        tasks = (await fleet.ask("show_agent_task_history", agent_name=_NAME))["tasks"]
        status = next(it["status"] for it in tasks if it["id"] == task["id"])
        if status not in ("pending", "running"):
            show(f"the task is {status}")
            return [f"{it['created_at']}  {it['status']:9}  {it['source']:13}  {it['summary']}" for it in tasks[:5]]
        await asyncio.sleep(_LOOK_AGAIN)
