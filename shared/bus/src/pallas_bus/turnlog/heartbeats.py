"""The pulse of a worker's process, and whoever listens for it.

It beats on a thread and a connection of its own: a worker whose event loop is busy for a while is slow, not dead, and
must not lose its turns for it. A process that was killed or stopped beats no more.
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

BEAT = 0.25
"""Seconds between two beats."""


@asynccontextmanager
async def send_heartbeats(access: Access | str, worker: str) -> AsyncGenerator[asyncio.Event]:
    """Let `worker` beat inside the block. Yields what is set when it beats no more, whyever that is."""
    stop, lost, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

    def live() -> None:
        try:
            _beat(access, worker, stop)
        except Exception:
            log.exception("sending heartbeats failed")
            loop.call_soon_threadsafe(lost.set)

    thread = threading.Thread(target=live, name="pulse", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        stop.set()
        await asyncio.to_thread(thread.join, 2 * BEAT)


def _beat(access: Access | str, worker: str, stop: threading.Event) -> None:
    async def beat() -> None:
        subject = WORKER_ALIVE.template.subject(worker=worker)
        said = WorkerAlive(worker=worker).model_dump_json().encode()
        while not stop.is_set():
            async with connect_when_possible(access, WORKER, instance=f"{worker}-pulse") as bus:
                while not stop.is_set() and not bus.closed.is_set():
                    with suppress(Unavailable):
                        await bus.send(subject, said)
                    await asyncio.sleep(BEAT)

    asyncio.run(beat())


@asynccontextmanager
async def watch_heartbeats(bus: Bus, heard: Callable[[str], None]) -> AsyncGenerator[None]:
    """Call `heard(worker)` for every beat of every worker."""

    async def arrived(message: Msg) -> None:
        heard(message.subject.rpartition(".")[2])

    subscription = await bus.subscribe(WORKER_ALIVE.template.filter(), arrived)
    try:
        yield
    finally:
        await bus.unsubscribe(subscription)
