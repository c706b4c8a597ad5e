"""Shows that the whole system works: one real turn through the public endpoint, and with `--demo` a coding agent."""

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic

from rich.console import Console

from pallas_cli.calling import Document, Show
from pallas_cli.chat.conversation import Conversation, agent_endpoint
from pallas_cli.fleet import FleetCalls, fleet_at
from pallas_cli.plain_text import plain_line
from pallas_cli.refused import Refused
from pallas_cli.stack.plan import Plan
from pallas_mcp_calls.model import CallFailed

_DEMO_MESSAGE = """\
Hello Harper, please show what your team can do.
/tool research {"message": "/tool look_up {\\"term\\": \\"turn\\"}"}
/tool engineering {"message": "/tool add {\\"a\\": 19, \\"b\\": 23}"}"""
_LIBRARY_MESSAGE = """
/tool research {"message": "/tool library-search/search {\\"query\\": \\"workspaces team reads\\", \\"limit\\": 1}"}"""
_PLAIN_MESSAGE = "Hello, please introduce yourself in one sentence."

_NAME = "papi"
_SPEC = "say I am papi, and I write files"
_TASK = "write hello.txt: Hello from papi"
_TASK_SECONDS = 60.0
_LOOK_AGAIN = 0.25


async def send_first_turn(console: Console, gateway: str, agent: tuple[str, str], *, demo: bool, library: bool) -> bool:
    """Send a turn to `agent` (team and name), print it with its progress, and return whether it succeeded.

    The demo team is called by its short address, which an agent has while its name is unique. It searches its library
    if `library` is set.
    """
    message = _DEMO_MESSAGE + _LIBRARY_MESSAGE * library if demo else _PLAIN_MESSAGE
    team, name = agent
    url, tool = agent_endpoint(gateway, name if demo else f"{team}/{name}")
    # The import takes a second or two; in a thread it does not block the loop, which watches the processes.
    await asyncio.to_thread(__import__, "pallas_mcp_calls.calls")
    console.print(f"\nFirst turn, to {url}", style="bold", highlight=False)
    for line in message.splitlines():
        _printer(console)(f"  > {line}", style="dim")
    show = _timed(console)
    try:
        async with Conversation(url, tool) as conversation:
            answer = await conversation.ask(message, show)
    except CallFailed as error:
        console.print(f"  {plain_line(str(error))}", style="red", markup=False, highlight=False)
        return False
    if answer.failed:
        show("failed", style="red")
    else:
        show("answered", style="green")
    for line in answer.text.splitlines():
        _printer(console)(f"  | {plain_line(line)}")
    return not answer.failed


async def show_coding_agent(console: Console, plan: Plan) -> bool:
    """Create an agent unless a run before has, give it a task, print what happens. Returns whether it succeeded."""
    console.print("\nA coding agent, in a workspace of the stand-in for Coder", style="bold", highlight=False)
    print_line, show = _printer(console), _timed(console)
    try:
        async with asyncio.timeout(_TASK_SECONDS), fleet_at(plan.gateway_urls[0], None) as fleet:
            task = await _give_task(fleet, show)
            for line in await _history(fleet, task, show):
                print_line(f"  | {plain_line(line)}")
    except Refused as refusal:
        console.print(f"  {plain_line(refusal.lines[0])}", style="red", markup=False, highlight=False)
        return False
    except TimeoutError:
        console.print(f"  the task has not ended after {_TASK_SECONDS:g} s", style="red", highlight=False)
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


def _printer(console: Console) -> Callable[..., None]:
    return partial(console.print, markup=False, highlight=False, soft_wrap=True)


def _timed(console: Console) -> Callable[..., None]:
    """Prints a line behind the seconds since now."""
    since = monotonic()

    def show(line: str, style: str | None = None) -> None:
        _printer(console)(f"  {monotonic() - since:6.3f} s  {plain_line(line)}", style=style)

    return show
