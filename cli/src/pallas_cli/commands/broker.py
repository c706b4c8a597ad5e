"""`pallas broker`: the broker's users and its certificate, its servers and the leaders of streams."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pallas_bus.connection import Bus
from pallas_bus.errors import retry_while_unavailable
from pallas_bus.servers import Server, StreamView, ask_servers, views
from pallas_cli.broker import AsJson, OnBroker, on_broker, run_as, system_access
from pallas_cli.broker_config.users import read_workers
from pallas_cli.broker_config.write import BrokerFolder
from pallas_cli.kept_addresses import find_address
from pallas_cli.plain_text import print_answer, print_plain, print_table
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.ids import is_token

app = typer.Typer()

Out = Annotated[Path, typer.Option("--out", help="Folder of the broker's configuration.")]


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
    BrokerFolder(out).seeds.rotate(user)
    if as_json:
        print(json.dumps({"user": user, "old_seed": f"{user}.seed.old"}))
        return
    typer.echo(f"{user} has a new seed; the old one stays valid until you remove {user}.seed.old")


@app.command()
@on_broker
def status(
    on: OnBroker,
    system_seed: Annotated[
        Path | None,
        typer.Option(
            envvar="PALLAS_NATS_SYSTEM_SEED_FILE",
            help="Seed file of the user `system`. [default: that in the data folder]",
        ),
    ] = None,
) -> None:
    """Show servers, and the leader and replicas of each stream. Exit code 1 if a server or a leader is missing."""
    access = system_access(find_address(on.nats, on.data, "nats"), on.data, system_seed)
    run_as(access, partial(show_status, as_json=on.as_json))


@app.command("step-down")
@on_broker
def step_down(
    on: OnBroker,
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="The stream, such as TURN_LOG, or KV_agents of a bucket.")
    ],
    to: Annotated[str | None, typer.Option(help="The server that shall lead it.")] = None,
) -> None:
    """Have the leader of a stream step down. Do so before its server is stopped."""
    on.run(step_down_leader, stream=stream, to=to)


_GIB = 2**30


async def show_status(bus: Bus, *, as_json: bool) -> None:
    """Print servers and streams. `bus` is connected as the user of the system account.

    Raises:
        Refused: none answers; or after all was printed, one does not, or a stream has no leader.
    """
    servers = await ask_servers(bus)
    if not servers:
        raise Refused("no server answers this user; --system-seed names the seed of the system account")
    streams = dict(sorted(views(servers).items()))
    if as_json:
        print(json.dumps(_described(servers, streams), indent=2))
    else:
        led = [view.leader for view in streams.values()]
        print_table(("server", "streams led", "connections", "store", "of"), (_cells(each, led) for each in servers))
        print_plain("")
        print_table(("stream", "leader", "replicas"), (_stream_cells(*each) for each in streams.items()))
    if faults := _faults(servers, streams):
        raise Refused(*faults)


def _described(servers: Sequence[Server], streams: Mapping[str, StreamView]) -> dict[str, object]:
    shown = [{name: value for name, value in asdict(server).items() if name != "streams"} for server in servers]
    return {"servers": shown, "streams": {name: asdict(view) for name, view in streams.items()}}


def _cells(server: Server, leaders: Sequence[str | None]) -> tuple[str, ...]:
    sizes = (f"{size / _GIB:.1f} GiB" for size in (server.stored, server.limit))
    return server.name, str(leaders.count(server.name)), str(server.connections), *sizes


def _stream_cells(name: str, view: StreamView) -> tuple[str, ...]:
    replicas = (f"{server} {_lag(lag)}" for server, lag in view.lags.items())
    return name, view.leader or "none", ", ".join(replicas)


def _lag(lag: int | None) -> str:
    return "not heard" if lag is None else f"lacks {lag}" if lag else "ok"


def _faults(servers: Sequence[Server], streams: Mapping[str, StreamView]) -> list[str]:
    wanted = max((server.cluster for server in servers), default=1)
    faults = [f"{wanted - len(servers)} of {wanted} servers do not answer"] if len(servers) < wanted else []
    without = [name for name, view in streams.items() if view.leader is None]
    return [*faults, f"no leader: {', '.join(without)}"] if without else faults


_WITHIN, _PAUSE = 10.0, 0.1
"""Seconds in which there must be a leader again, and between two looks."""


async def step_down_leader(bus: Bus, stream: str, *, to: str | None, as_json: bool) -> None:
    """Move the leader of a stream, to the server `to` if it has a replica, and print who leads then.

    Raises:
        WrongUsage: the name is none of a stream.
        Refused: there is no such stream or replica, the stream has one replica only, or no leader is elected.
    """
    if not is_token(stream.lower()):
        raise WrongUsage(f"{stream!r} is not the name of a stream; `pallas broker status` lists them")
    find = partial(_leader, bus, stream)
    try:
        before, replicas = await find(), await _replicas(bus, stream)
        if replicas == 1:
            raise Refused(f"{stream} has one replica only, on {before}: no other server can lead it", code=1)
        if before != to:
            await bus.api(f"STREAM.LEADER.STEPDOWN.{stream}", {"placement": {"preferred": to}} if to else {})
        leader = await retry_while_unavailable(find, "find the leader", deadline=_WITHIN, pause=_PAUSE)
    except PallasError as error:
        raise Refused(error.message) from error
    print_answer(
        {"stream": stream, "before": before, "leader": leader},
        f"{stream} is led by {leader} (before: {before}).",
        as_json=as_json,
    )


async def _replicas(bus: Bus, stream: str) -> int:
    return (await bus.api(f"STREAM.INFO.{stream}", {}))["config"]["num_replicas"]


async def _leader(bus: Bus, stream: str) -> str:
    """The server that leads the stream.

    Raises:
        Unavailable: there is no such stream, or it has no leader.
    """
    info = await bus.api(f"STREAM.INFO.{stream}", {}, timeout=2.0)
    leader: str | None = info.get("cluster", {}).get("leader")
    if leader is None:
        raise Unavailable(f"{stream} has no leader")
    return leader
