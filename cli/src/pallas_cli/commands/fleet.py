"""`pallas fleet`: coding agents and their tasks, through a gateway."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl
from pallas_cli.confirming import Yes, confirm
from pallas_cli.kept_addresses import find_address
from pallas_cli.options import GatewayUrl, Token
from pallas_cli.paging import After, Limit, Page

if TYPE_CHECKING:
    from pallas_cli.fleet.calls import FleetCalls

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="AGENT", help="Name of the coding agent, in any case.")]

type _Document = dict[str, Any]


def _run[R](url: str | None, token: str | None, data: Path, work: "Callable[[FleetCalls], Awaitable[R]]") -> R:
    """Connect to the fleet and do some work. Ctrl-C ends it; a task that has begun goes on."""
    import asyncio

    from pallas_cli.fleet.calls import fleet_at
    from pallas_cli.kept_secrets import find_token

    gateway, bearer = find_address(url, data, "gateway"), find_token(token)

    async def main() -> R:
        async with fleet_at(gateway, bearer) as fleet:
            return await work(fleet)

    try:
        return asyncio.run(main())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _ask(
    url: str | None, token: str | None, data: Path, as_json: bool, tool: str, **arguments: object
) -> _Document | None:
    """Call a tool, with its progress. Returns the answer to show; None: it was printed as JSON."""
    answer = _answer(url, token, data, tool, **arguments)
    if as_json:
        print(json.dumps(answer, indent=2, ensure_ascii=False))
        return None
    return answer


def _answer(url: str | None, token: str | None, data: Path, tool: str, **arguments: object) -> _Document:
    """The answer of a tool, whose progress is shown.

    Raises:
        FleetRefused: the fleet refuses.
    """
    from pallas_cli.fleet.calls import progress

    async def work(fleet: "FleetCalls") -> _Document:
        with progress() as show:
            return await fleet.ask(tool, show=show, **arguments)

    return _run(url, token, data, work)


@app.command("list")
def list_agents(
    limit: Limit = None,
    after: After = None,
    url: GatewayUrl = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List coding agents with their status and task."""
    from pallas_cli.fleet.show import show_agents

    show_agents(_answer(url, token, data, "list_agents"), Page(limit, after), as_json=as_json)


@app.command()
def show(
    agent: Name, url: GatewayUrl = None, token: Token = None, data: Data = DEFAULT_DATA, as_json: AsJson = False
) -> None:
    """Show a coding agent: status, role, project, spec. A pull request is shown if one is known."""
    from pallas_cli.fleet.show import show_agent

    if answer := _ask(url, token, data, as_json, "show_agent", agent_name=agent):
        show_agent(answer["agent"])


@app.command()
def create(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Name: 1 to 20 letters, digits and hyphens.")],
    project: Annotated[str, typer.Option(help="Project, as `pallas fleet projects` lists it.")],
    spec: Annotated[
        str, typer.Option(help="What the agent is for, with which it begins at once; - reads it from standard input.")
    ],
    role: Annotated[
        str | None, typer.Option(help="Role, as `pallas fleet roles PROJECT` lists it. [default: coder]")
    ] = None,
    url: GatewayUrl = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Create a coding agent in a new workspace."""
    from pallas_cli.plain_text import print_plain

    wanted = {"name": agent, "project": project, "role": role, "spec": _text(spec)}
    if answer := _ask(url, token, data, as_json, "create_agent", **wanted):
        print_plain(answer["message"])


@app.command()
def start(
    agent: Name,
    task: Annotated[str, typer.Argument(metavar="TEXT", help="What it is to do; - reads it from standard input.")],
    url: GatewayUrl = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Give a coding agent a task. This returns when the agent has begun; `pallas fleet watch` shows how it goes on."""
    from pallas_cli.plain_text import print_plain

    if answer := _ask(url, token, data, as_json, "start_agent_task", agent_name=agent, task_description=_text(task)):
        print_plain(f"{answer['message']}: {answer['task']['id']}")


@app.command()
def stop(
    agent: Name, url: GatewayUrl = None, token: Token = None, data: Data = DEFAULT_DATA, as_json: AsJson = False
) -> None:
    """Stop the task that a coding agent has."""
    from pallas_cli.plain_text import print_plain

    if answer := _ask(url, token, data, as_json, "stop_agent_task", agent_name=agent):
        print_plain(f"{answer['message']}: {answer['task']['summary']}")


@app.command()
def history(
    agent: Name,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of tasks.")] = 20,
    after: After = None,
    url: GatewayUrl = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List the tasks of a coding agent, the latest first."""
    from pallas_cli.fleet.history import read_history
    from pallas_cli.fleet.show import show_history
    from pallas_cli.waiting import shown

    with shown("asking the fleet"):
        answer = _run(url, token, data, lambda fleet: read_history(fleet, agent, limit, after))
    show_history(answer, Page(limit, after), as_json=as_json)


@app.command()
def delete(
    agent: Name,
    yes: Yes = False,
    url: GatewayUrl = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Delete a coding agent with its workspace and history. It may be working."""
    from pallas_cli.plain_text import print_plain

    confirm(f"agent {agent} and everything in its workspace is deleted", yes=yes, as_json=as_json)
    if answer := _ask(url, token, data, as_json, "delete_agent", agent_name=agent):
        print_plain(answer["message"])


@app.command()
def projects(url: GatewayUrl = None, token: Token = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """List projects: the templates of Coder."""
    from pallas_cli.fleet.show import show_projects

    if answer := _ask(url, token, data, as_json, "list_agent_projects"):
        show_projects(answer)


@app.command()
def roles(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="Project, as `pallas fleet projects` lists it.")],
    url: GatewayUrl = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List the roles of a project."""
    from pallas_cli.fleet.show import show_roles

    if answer := _ask(url, token, data, as_json, "list_agent_roles", project=project):
        show_roles(answer)


@app.command()
def watch(
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Only this coding agent.")] = None,
    url: GatewayUrl = None,
    token: Token = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print one document a line.")] = False,
) -> None:
    """Print what coding agents write and how they change. Ctrl-C ends it.

    The lines come from the broker, for which an operator's seed is needed. Without it, statuses are printed.
    """
    from pallas_cli.broker import access_to
    from pallas_cli.fleet.watch import Watch

    _run(
        url,
        token,
        data,
        lambda fleet: Watch(fleet, agent, as_json).run(lambda: access_to(find_address(nats, data, "nats"), data)),
    )


def _text(given: str) -> str:
    """A text, or standard input for `-`."""
    import sys

    from pallas_cli.refused import WrongUsage

    if given != "-":
        return given
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")  # editors on Windows begin a file with a byte order mark
    except UnicodeDecodeError as error:
        raise WrongUsage("standard input is not UTF-8 text") from error
