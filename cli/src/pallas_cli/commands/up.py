"""`pallas up`: the whole platform on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA

app = typer.Typer()


@app.command()
def up(
    ready_file: Annotated[
        Path | None, typer.Option(help="Write addresses and process ids to this JSON file when the stack is ready.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder for all data, logs and secrets.")] = DEFAULT_DATA,
    teams: Annotated[
        list[Path] | None, typer.Option(help="Team folder. May be repeated. [default: the demo team]")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 1,
    gateways: Annotated[int, typer.Option(min=1, help="Number of gateways.")] = 1,
    slots: Annotated[
        int | None, typer.Option(min=1, help="Number of turns that a worker executes at the same time.")
    ] = None,
    port_base: Annotated[
        int,
        typer.Option(
            min=1024,
            max=65000,
            help="Port of the registry. The gateway uses +20, the servers use +30 and up. Dedicated ports of agents "
            "move by as much: those of the demo team are +1 to +3.",
        ),
    ] = 23030,
    auth: Annotated[
        bool,
        typer.Option(
            "--auth/--no-auth",
            help="Start the auth services: team-lifecycle, auth-resolver, library-search.",
        ),
    ] = True,
    servers: Annotated[
        str,
        typer.Option("--with", help="Servers to start with --no-auth, separated by commas: redis, postgres."),
    ] = "",
    turn: Annotated[
        bool | None,
        typer.Option("--turn/--no-turn", help="Send a first turn to the first agent. [default: only to the demo team]"),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show a coding agent at work, too, and exit.")] = False,
) -> None:
    """Run the whole platform on this machine, until Ctrl-C."""
    from rich.console import Console

    from pallas_cli.embedded.servers import require_services
    from pallas_cli.stack.plan import StackOptions
    from pallas_cli.stack.run import run_stack

    require_services()
    options = StackOptions(
        data=data,
        teams=tuple(teams or ()),
        workers=workers,
        gateways=gateways,
        slots=slots,
        port_base=port_base,
        auth=auth,
        servers=_servers(servers),
        ready_file=ready_file,
        turn=turn,
        stay=not demo,
    )
    raise typer.Exit(run_stack(options, Console()))


def _servers(names: str) -> frozenset[str]:
    known = {"redis", "postgres"}
    wanted = frozenset(name.strip() for name in names.split(",") if name.strip())
    if unknown := wanted - known:
        raise typer.BadParameter(f"unknown server: {', '.join(sorted(unknown))}", param_hint="--with")
    return wanted
