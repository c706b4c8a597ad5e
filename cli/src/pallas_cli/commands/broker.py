"""`pallas broker`: the broker's users and its certificate."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import AsJson

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
        typer.Option(
            help="Team folders that one kind of worker hosts, as in PALLAS_TEAMS. Repeat it for each kind of worker."
        ),
    ] = None,
    tls: Annotated[
        list[str] | None,
        typer.Option(help="Host name or address of the broker: write a certificate for it. May be repeated."),
    ] = None,
    tls_path: Annotated[
        Path | None, typer.Option(help="Path of OUT/tls as the broker sees it. [default: its path here]")
    ] = None,
    containers: Annotated[
        bool,
        typer.Option("--containers", help="Write secrets for containers: files with mode 0444 in a private folder."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write users.conf, and missing seeds and certificates. Send SIGHUP to the broker afterwards."""
    from pallas_cli.broker_config.users import read_workers
    from pallas_cli.broker_config.write import BrokerFolder

    groups = [[Path(folder) for folder in group.split(os.pathsep) if folder] for group in teams or ()]
    folder = BrokerFolder(out, containers)
    seeds = {name: str(folder.seeds.path(name)) for name in folder.write_users(read_workers(groups, os.environ))}
    print(json.dumps({"seeds": seeds}, indent=2) if as_json else "\n".join(seeds.values()))
    if tls:
        folder.write_tls(tls, seen_at=tls_path)


@app.command()
def rotate(
    user: Annotated[str, typer.Argument(help="Name of the user: its seed file without `.seed`.")],
    out: Out,
    as_json: AsJson = False,
) -> None:
    """Give a user a new seed. The old seed stays valid until you remove its file.

    Run `pallas broker config` after the rotation, and again after you have removed the old seed.
    """
    from pallas_cli.broker_config.write import BrokerFolder

    BrokerFolder(out).seeds.rotate(user)
    if as_json:
        print(json.dumps({"user": user, "old_seed": f"{user}.seed.old"}))
        return
    typer.echo(f"{user} has a new seed; the old one stays valid until you remove {user}.seed.old")
