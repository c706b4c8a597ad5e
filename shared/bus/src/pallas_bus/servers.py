"""What the servers of the broker say about themselves and about the streams, over HTTP or to the system account."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg

from pallas_bus.connection import Bus
from pallas_bus.leaders import is_heard, is_led

_FIRST, _NEXT = 2.0, 0.5
"""Seconds to wait for the first answer, and for one more after each. How many servers there are is not known."""


@dataclass(frozen=True, slots=True)
class Server:
    """One server. Sizes are bytes; `limit` is how much its streams may take; `slow` counts since its start.

    `cluster` is the number of servers that its cluster should have. `streams` are those of which it has a replica, with
    its view of their cluster, None where there is no cluster.
    """

    name: str
    connections: int
    slow: int
    memory: int
    stored: int
    limit: int
    cluster: int
    streams: Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class StreamView:
    """Who leads a stream, and how many messages each replica lacks: None for one that its leader does not hear."""

    leader: str | None
    lags: Mapping[str, int | None]


def server_of(general: Mapping[str, Any], jetstream: Mapping[str, Any]) -> Server:
    """Read the pages `varz` and `jsz` of a server.

    Raises:
        KeyError: a figure is missing.
    """
    details: list[dict[str, Any]] = jetstream.get("account_details") or []
    streams: dict[str, Mapping[str, Any] | None] = {
        stream["name"]: stream.get("cluster") for account in details for stream in account.get("stream_detail") or ()
    }
    return Server(
        name=general["server_name"],
        connections=general["connections"],
        slow=general["slow_consumers"],
        memory=general["mem"],
        stored=jetstream["storage"],
        limit=jetstream["config"]["max_storage"],
        cluster=jetstream.get("meta_cluster", {}).get("cluster_size", 1),
        streams=streams,
    )


def views(servers: Iterable[Server]) -> dict[str, StreamView]:
    """What these servers say of each stream. A leader counts only while it hears enough of its replicas."""
    found = dict[str, StreamView]()
    for server in servers:
        for stream, cluster in server.streams.items():
            found.setdefault(stream, StreamView(None, {}))
            if cluster is None or (cluster.get("leader") == server.name and is_led(cluster)):
                found[stream] = StreamView(server.name, _lags(cluster or {}))
    return found


def _lags(cluster: Mapping[str, Any]) -> dict[str, int | None]:
    replicas: list[dict[str, Any]] = cluster.get("replicas") or []
    return {each["name"]: each.get("lag", 0) if is_heard(each) else None for each in replicas}


async def ask_servers(bus: Bus) -> list[Server]:
    """Ask every server, as the user of the system account. Those that do not answer are left out."""
    general, jetstream = await asyncio.gather(
        _answers(bus, "VARZ", {}), _answers(bus, "JSZ", {"accounts": True, "streams": True})
    )
    found = [server_of(general[name], jetstream[name]) for name in general.keys() & jetstream.keys()]
    return sorted(found, key=lambda server: server.name)


async def _answers(bus: Bus, page: str, options: Mapping[str, bool]) -> dict[str, dict[str, Any]]:
    """A page of each server that answers, by the server's id."""
    arrived: asyncio.Queue[Msg] = asyncio.Queue()
    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, arrived.put)
    found = dict[str, dict[str, Any]]()
    try:
        await bus.send(f"$SYS.REQ.SERVER.PING.{page}", json.dumps(options).encode(), reply=inbox)
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(_NEXT if found else _FIRST):
                    message = await arrived.get()
                if not message.data:  # nobody answers users of other accounts
                    break
                answer: dict[str, Any] = json.loads(message.data)
                if "data" in answer:
                    found[answer["server"]["id"]] = answer["data"]
    finally:
        await bus.unsubscribe(subscription)
    return found
