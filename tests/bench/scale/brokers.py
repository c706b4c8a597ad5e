"""The brokers under measurement: one, or a cluster; the CPU of each; brokers that may use only a share of a core.

A broker with a share stands for a machine of its own: without, all brokers of one machine have its CPU together.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from tests.bench.processes import Measured
from tests.bench.scale.streams import CONSUMER, TAG, make_streams
from tests.embedded import NatsServer, free_port
from tests.integration.real_parts import until

from pallas_bus.connection import Bus, connect
from pallas_contracts.catalog import GATEWAY, TURN_LOG, TURN_QUEUE
from pallas_contracts.errors import PallasError

_WITHIN = 60.0
_PERIOD = 0.02
"""Seconds after which it is looked at whether a broker has used up its share."""


class Cluster:
    """Brokers `n0`, `n1` ... . Three of them have the streams, and the first leads them."""

    def __init__(self, servers: Sequence[NatsServer], bus: Bus) -> None:
        self.servers = servers
        self.bus = bus
        self.measured = [Measured(f"n{number}", server.pid) for number, server in enumerate(servers)]

    async def make(self, replicas: int) -> None:
        """Make the streams, led by the first broker."""
        await until(lambda: self._is_made(replicas), _WITHIN)
        if replicas > 1:
            for api in (f"STREAM.{{}}.{TURN_LOG.name}", f"STREAM.{{}}.{TURN_QUEUE.name}"):
                await self._lead(api)
            await self._lead(f"CONSUMER.{{}}.{TURN_QUEUE.name}.{CONSUMER}")

    async def _is_made(self, replicas: int) -> bool:
        with suppress(PallasError):  # not all brokers know each other yet
            await make_streams(self.bus, replicas)
            return True
        return False

    async def _lead(self, api: str) -> None:
        """Wait until the first broker leads a stream or consumer: `STREAM.{}.NAME` or `CONSUMER.{}.STREAM.NAME`."""
        await until(lambda: self._leads(api, "n0"), _WITHIN)

    async def _leads(self, api: str, wanted: str) -> bool:
        with suppress(PallasError):
            leader = (await self.bus.api(api.format("INFO"), {}))["cluster"].get("leader")
            if leader == wanted:
                return True
            await self.bus.api(api.format("LEADER.STEPDOWN"), {"placement": {"preferred": wanted}})
        return False


@asynccontextmanager
async def brokers(count: int) -> AsyncGenerator[Cluster]:
    """A cluster of so many brokers with an empty store, or one alone."""
    ports = [free_port() for _ in range(count)]
    routes = json.dumps([f"nats://127.0.0.1:{port}" for port in ports])
    texts = [
        f"server_name: n{number}\nserver_tags: {json.dumps([TAG] if number < 3 else [])}\n"
        f'cluster {{ name: c, listen: "127.0.0.1:{port}", routes: {routes} }}'
        for number, port in enumerate(ports)
    ]
    async with AsyncExitStack() as stack:
        servers = [stack.enter_context(NatsServer(further=text if count > 1 else "")) for text in texts]
        bus = await stack.enter_async_context(connect(servers[0].url, GATEWAY))
        yield Cluster(servers, bus)


@asynccontextmanager
async def held_to(share: float | None, measured: Sequence[Measured]) -> AsyncGenerator[None]:
    """Inside the block none of these processes uses more than `share` of a core: it is stopped until it may go on."""
    if share is None:
        yield
        return
    tasks = [asyncio.create_task(_hold(each, share)) for each in measured]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for each in measured:
            os.kill(each.pid, signal.SIGCONT)


async def _hold(process: Measured, share: float) -> None:
    loop = asyncio.get_running_loop()
    began, used = loop.time(), process.cpu_seconds()
    while True:
        await asyncio.sleep(_PERIOD)
        ahead = (process.cpu_seconds() - used) / share - (loop.time() - began)
        if ahead > 0:
            os.kill(process.pid, signal.SIGSTOP)
            await asyncio.sleep(ahead)
            os.kill(process.pid, signal.SIGCONT)
        elif ahead < -_PERIOD:  # what was not used is not saved up
            began, used = loop.time(), process.cpu_seconds()
