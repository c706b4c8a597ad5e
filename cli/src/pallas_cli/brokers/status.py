"""Shows the servers of the broker, and the leader and replicas of each stream, as the servers see them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.servers import Server, StreamView, ask_servers, views
from pallas_cli.plain_table import print_table
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused

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
