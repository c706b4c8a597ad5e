"""`pallas broker`: who may speak to the broker, and as whom."""

import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="The broker's users and its certificate.")

Out = Annotated[Path, typer.Option("--out", help="Folder of the broker's configuration.")]


@app.callback()
def about() -> None:
    """The broker's users and its certificate."""


@app.command()
def config(
    out: Out,
    teams: Annotated[
        list[str] | None,
        typer.Option(help="PALLAS_TEAMS of a worker: folders, separated as in PATH. Once for each kind of worker."),
    ] = None,
    tls: Annotated[
        list[str] | None, typer.Option(help="Name or address of the broker, for a certificate. May be repeated.")
    ] = None,
    tls_path: Annotated[
        Path | None, typer.Option(help="Folder in which the broker sees OUT/tls. Default: where it is.")
    ] = None,
    containers: Annotated[
        bool, typer.Option("--containers", help="Secrets are for containers: mode 0444 in a folder of yours alone.")
    ] = False,
) -> None:
    """Write users.conf, and seeds and a certificate where there are none. Send the broker SIGHUP afterwards."""
    from pallas_cli.broker_config.users import read_workers
    from pallas_cli.broker_config.write import BrokerFolder

    groups = [[Path(folder) for folder in group.split(os.pathsep) if folder] for group in teams or ()]
    folder = BrokerFolder(out, containers)
    for name in folder.write_users(read_workers(groups, os.environ)):
        typer.echo(folder.seeds.path(name))
    if tls:
        folder.write_tls(tls, seen_at=tls_path)


@app.command()
def rotate(user: Annotated[str, typer.Argument(help="Name of the user, as its seed's file has it.")], out: Out) -> None:
    """Give a user another seed. The old one counts until its file is removed; write the configuration after both."""
    from pallas_cli.broker_config.write import BrokerFolder

    BrokerFolder(out).seeds.rotate(user)
    typer.echo(f"{user} has a new seed; the old one counts until {user}.seed.old is removed")
