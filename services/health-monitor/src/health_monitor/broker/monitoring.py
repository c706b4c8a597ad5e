"""Reads what the servers of the broker say about themselves, from their HTTP monitoring.

It needs no user and no connection to the broker, so it also works when that has lost its quorum. The name in an address
may stand for several servers, as that of a headless service does: all of its addresses are asked.
"""

import asyncio
import socket
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from health_monitor.servers import Server, StreamView
from pallas_bus.transport.leaders import is_heard, is_led

TIMEOUT = 2.0
"""Seconds in which a server must answer."""


async def read_servers(http: httpx.AsyncClient, urls: Iterable[httpx.URL]) -> dict[str, Server | None]:
    """Every server by its address; None for those that do not answer."""
    found = [address for addresses in await asyncio.gather(*map(_addresses, urls)) for address in addresses]
    servers = await asyncio.gather(*(_read(http, address) for address in found))
    return dict(zip((address.netloc.decode() for address in found), servers, strict=True))


async def _addresses(url: httpx.URL) -> list[httpx.URL]:
    """The addresses that a URL stands for. A name that cannot be resolved stands for a server that is down."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except OSError:
        return [url]
    return [url.copy_with(host=host) for host in sorted({str(each[4][0]) for each in found})]


async def _read(http: httpx.AsyncClient, address: httpx.URL) -> Server | None:
    try:
        async with asyncio.timeout(TIMEOUT):
            general, jetstream = await asyncio.gather(
                http.get(address.join("/varz")), http.get(address.join("/jsz"), params={"streams": "true"})
            )
        return _server(general.raise_for_status().json(), jetstream.raise_for_status().json())
    except (httpx.HTTPError, TimeoutError, ValueError, KeyError):
        return None


def _server(general: Mapping[str, Any], jetstream: Mapping[str, Any]) -> Server:
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
            leads = cluster is None or cluster.get("leader") == server.name
            if leads and is_led(cluster):
                found[stream] = StreamView(server.name, _lags(cluster or {}))
    return found


def _lags(cluster: Mapping[str, Any]) -> dict[str, int]:
    replicas: list[dict[str, Any]] = cluster.get("replicas") or []
    return {each["name"]: each.get("lag", 0) for each in replicas if is_heard(each)}
