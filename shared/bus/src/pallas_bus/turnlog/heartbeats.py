"""Heartbeats of workers: sent from a thread of their own, and watched by gateways.

The thread has its own connection. So a worker whose event loop is busy still sends heartbeats and keeps its turns,
while a process that was killed or paused sends none.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from nats.aio.msg import Msg

from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import Bus, connect_when_possible
from pallas_contracts.agents import WorkerAlive
from pallas_contracts.catalog import WORKER, WORKER_ALIVE
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 0.25
"""Seconds between two heartbeats."""


@asynccontextmanager
async def send_heartbeats(access: Access | str, worker: str, *, service: str = WORKER) -> AsyncGenerator[asyncio.Event]:
    """Send heartbeats of `worker`, a replica of `service`, inside the block.

    Yields an event that is set when an error has ended them.
    """
    stop, lost, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    sending = runner.get_loop()

    def run() -> None:
        try:
            with runner:
                runner.run(_send_until(stop, access, worker, service))
        except Exception:
            log.exception("sending heartbeats failed")
            loop.call_soon_threadsafe(lost.set)

    thread = threading.Thread(target=run, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        with suppress(RuntimeError):  # it has ended
            sending.call_soon_threadsafe(stop.set)
        await asyncio.to_thread(thread.join, 2 * HEARTBEAT_SECONDS)


async def _send_until(stop: asyncio.Event, access: Access | str, worker: str, service: str) -> None:
    subject = WORKER_ALIVE.template.subject(worker=worker)
    heartbeat = WorkerAlive(worker=worker).model_dump_json().encode()
    while not stop.is_set():
        async with connect_when_possible(access, service, instance=f"{worker}-heartbeats") as bus:
            while not stop.is_set() and not bus.closed.is_set():
                with suppress(Unavailable):
                    await bus.send(subject, heartbeat)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), HEARTBEAT_SECONDS)


@asynccontextmanager
async def watch_heartbeats(bus: Bus, on_heartbeat: Callable[[str], None]) -> AsyncGenerator[None]:
    """Call `on_heartbeat(worker)` for every heartbeat of every worker, inside the block."""

    def arrived(message: Msg) -> None:
        on_heartbeat(message.subject.rpartition(".")[2])

    subscription = await bus.listen(WORKER_ALIVE.template.filter(), arrived)
    try:
        yield
    finally:
        await bus.unsubscribe(subscription)
