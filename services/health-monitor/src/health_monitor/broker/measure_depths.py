"""Measures every few seconds what the broker holds: turns by agent, messages by stream.

While the broker does not answer there are no series: the last values would look as if all were well.
"""

import asyncio
import logging
from collections.abc import Container

from health_monitor.metrics import Metrics
from pallas_bus.connection import Bus
from pallas_contracts.catalog import STREAMS
from pallas_contracts.errors import PallasError
from pallas_turns.queue import queue_depths, stream_depths

log = logging.getLogger(__name__)

INTERVAL = 5.0
"""Seconds between two measurements."""


async def measure_depths(bus: Bus, agents: Container[str], metrics: Metrics) -> None:
    """Measure for ever. Queues of agents that are not among `agents` (`{team}.{agent}`) have no metrics."""
    while True:
        try:
            queues, streams = await queue_depths(bus), await stream_depths(bus, STREAMS)
        except PallasError as error:
            log.debug("cannot measure depths", extra={"reason": error.message})
            queues, streams = {}, {}
        metrics.queues_read({key: depth for key, depth in queues.items() if ".".join(key) in agents})
        metrics.streams_read(streams)
        await asyncio.sleep(INTERVAL)
