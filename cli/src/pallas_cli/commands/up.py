"""`pallas up`: the whole platform on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA


def up(
    ready_file: Annotated[
        Path | None, typer.Option(help="Write addresses and process ids here (JSON) once everything answers.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder for everything that is kept, logs included.")] = DEFAULT_DATA,
    teams: Annotated[
        list[Path] | None, typer.Option(help="Team folder; may be given several times. Default: the demo team.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 1,
    gateways: Annotated[int, typer.Option(min=1, help="Number of gateways.")] = 1,
    slots: Annotated[int | None, typer.Option(min=1, help="Turns that a worker executes at a time.")] = None,
    port_base: Annotated[
        int, typer.Option(min=1024, max=65000, help="Registry's port; the gateway is at +20, servers from +30 on.")
    ] = 23030,
    auth: Annotated[
        bool,
        typer.Option(
            "--auth/--no-auth",
            help="Start what knows who may read what: team-lifecycle, auth-resolver, library-search.",
        ),
    ] = True,
    servers: Annotated[
        str,
        typer.Option("--with", help="With --no-auth, start these servers all the same: redis, postgres; with commas."),
    ] = "",
    turn: Annotated[
        bool | None, typer.Option("--turn/--no-turn", help="Send a first turn. Default: only to the demo team.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Stop after the first turn.")] = False,
) -> None:
    """Start servers and services, send a first turn, and stay until Ctrl-C."""
    from rich.console import Console

    from pallas_cli.stack.options import StackOptions
    from pallas_cli.stack.run import run_stack

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
        raise typer.BadParameter(f"unknown: {', '.join(sorted(unknown))}", param_hint="--with")
    return wanted
