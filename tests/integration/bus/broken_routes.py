"""A cluster of three brokers, one of which can be cut off from the others while its clients stay connected."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.cluster import lead, make
from tests.embedded import NatsServer, free_port
from tests.link import Link, linked

from pallas_bus.connection import connect
from pallas_contracts.catalog import GATEWAY, TURN_LOG, TURN_OBJECTS, TURN_QUEUE
from pallas_contracts.contract import Bucket, Stream

_ASKED_AGAIN = 1.0
"""Seconds. A request before the cluster has a leader is never answered."""

_CLUSTER = """\
server_name: {name}
cluster {{
    name: c, listen: "127.0.0.1:{port}", no_advertise: true, routes: {routes}
    authorization {{ user: {user}, password: x }}
}}
"""
"""Brokers tell each other of the others and connect to these by themselves, past a link: only what is in `routes` names
the other's user, so nothing else is let in."""


@dataclass(frozen=True)
class BrokenRoutes:
    """The URLs of a broker on either side, and the routes between them."""

    lonely: str
    others: str
    routes: tuple[Link, ...]

    async def cut(self) -> None:
        """Cut the routes. Clients on both sides stay connected."""
        for route in self.routes:
            await route.cut()

    async def mend(self) -> None:
        """Restore the routes."""
        for route in self.routes:
            await route.mend()


@asynccontextmanager
async def broken_routes(*more: Bucket[Any]) -> AsyncGenerator[BrokenRoutes]:
    """The brokers, whole at first, with the streams of turns. The broker that can be cut off leads none of them."""
    ports = [free_port() for _ in range(3)]
    async with AsyncExitStack() as stack:
        links = [await stack.enter_async_context(linked(f"nats://127.0.0.1:{port}")) for port in ports[1:]]
        inner = [f"127.0.0.1:{port}" for port in ports[1:]]
        routes = ([link.url.removeprefix("nats://") for link in links], inner, inner)
        servers: list[NatsServer] = []
        for number, port in enumerate(ports):
            to = json.dumps([f"nats://inner:x@{place}" for place in routes[number]])
            cluster = _CLUSTER.format(name=f"n{number}", port=port, routes=to, user="inner" if number else "outer")
            servers.append(stack.enter_context(NatsServer(further=cluster)))
        await _declare(servers[1].url, TURN_QUEUE, TURN_LOG, TURN_OBJECTS, *more)
        yield BrokenRoutes(servers[0].url, servers[1].url, tuple(links))


async def _declare(url: str, *things: Stream | Bucket[Any]) -> None:
    async with connect(url, GATEWAY, timeout=_ASKED_AGAIN) as bus:
        await make(bus, *things)
        for thing in things:
            await lead(bus, thing, ("n1", "n2"))
