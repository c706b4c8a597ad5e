"""`pallas broker`: the broker's users and its certificate, its servers and the leaders of streams."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, run_as, run_on, system_access
from pallas_cli.kept_addresses import find_address

app = typer.Typer(no_args_is_help=True, help="The broker's users, certificate, servers and leaders.")

Out = Annotated[Path, typer.Option("--out", help="Folder of the broker's configuration.")]


@app.callback()
def about() -> None:
    """The broker's users, certificate, servers and leaders."""


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
    users = folder.write_users(read_workers(groups, os.environ))
    seeds = {name: str(folder.seeds.path(name)) for name in users}
    print(json.dumps({"seeds": seeds}, indent=2) if as_json else "\n".join(seeds.values()))
    if tls:
        folder.write_tls(tls, seen_at=tls_path)


@app.command()
def rotate(
    user: Annotated[str, typer.Argument(metavar="USER", help="Name of the user: its seed file without `.seed`.")],
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


@app.command()
def status(
    system_seed: Annotated[
        Path | None,
        typer.Option(
            envvar="PALLAS_NATS_SYSTEM_SEED_FILE",
            help="Seed file of the user `system`. [default: that in the data folder]",
        ),
    ] = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show servers, and the leader and replicas of each stream. Exit code 1 if a server or a leader is missing."""
    from pallas_cli.brokers.status import show_status

    access = system_access(find_address(nats, data, "nats"), data, system_seed)
    run_as(access, partial(show_status, as_json=as_json))


@app.command("step-down")
def step_down(
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="The stream, such as TURN_LOG, or KV_agents of a bucket.")
    ],
    to: Annotated[str | None, typer.Option(help="The server that shall lead it.")] = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Have the leader of a stream step down. Do so before its server is stopped."""
    from pallas_cli.brokers.step_down import step_down as step_down_leader

    run_on(nats, data, partial(step_down_leader, stream=stream, to=to, as_json=as_json))
