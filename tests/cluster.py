"""Clusters of embedded brokers that keep every stream three times."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from tests.embedded import NatsServer, free_port
from tests.integration.real_parts import until

from pallas_bus.connection import Bus
from pallas_bus.streams import declare, stream_name
from pallas_contracts.contract import Bucket, Stream
from pallas_contracts.errors import Rejected, Unavailable

MADE_WITHIN = 30.0

_CONFIG = 'server_name: {name}\ncluster {{ name: c, listen: "127.0.0.1:{port}", routes: {routes} }}\n'


@asynccontextmanager
async def three_brokers(further: str = "") -> AsyncGenerator[list[NatsServer]]:
    """Three brokers, n0 to n2, with HTTP monitoring. `further` is more configuration of each."""
    ports = [free_port() for _ in range(3)]
    routes = json.dumps([f"nats://127.0.0.1:{port}" for port in ports])
    texts = [_CONFIG.format(name=f"n{number}", port=port, routes=routes) for number, port in enumerate(ports)]
    servers = [NatsServer(monitor_port=free_port(), further=text + further) for text in texts]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.close()


async def make(bus: Bus, *things: Stream | Bucket[Any]) -> None:
    """Declare streams and buckets on a cluster that may have started just now."""
    await until(partial(_are_made, bus, *things), MADE_WITHIN)


async def _are_made(bus: Bus, *things: Stream | Bucket[Any]) -> bool:
    try:
        await declare(bus, *things, replicas=3, timeout=MADE_WITHIN)
    except Rejected:  # the leader does not know all three brokers yet
        return False
    return True


async def lead(bus: Bus, thing: Stream | Bucket[Any], allowed: Sequence[str]) -> None:
    """Wait until one of the `allowed` brokers leads the stream of `thing`; the first of them is preferred."""
    await until(partial(_is_led_by, bus, stream_name(thing), allowed), MADE_WITHIN)


async def _is_led_by(bus: Bus, stream: str, allowed: Sequence[str]) -> bool:
    with suppress(Unavailable):  # while a leader is elected
        leader = (await bus.api(f"STREAM.INFO.{stream}", {}))["cluster"].get("leader")
        if leader and leader not in allowed:
            await bus.api(f"STREAM.LEADER.STEPDOWN.{stream}", {"placement": {"preferred": allowed[0]}})
        return leader in allowed
    return False
