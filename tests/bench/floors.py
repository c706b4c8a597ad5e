"""The floors under a turn: a round trip through the broker, and a message that the broker has stored."""

from collections.abc import Awaitable, Callable

from pallas_bus.connection import Bus

ROUND_TRIP = "nats-round-trip"
STORED = "jetstream-ack"

_ECHO = "bench.echo"
_STORED = "bench.stored"
_PAYLOAD = b"x" * 256

type Ask = Callable[[], Awaitable[object]]


async def floor(bus: Bus, kind: str) -> Ask:
    """What to repeat for a floor; makes its stream if it needs one."""
    if kind == ROUND_TRIP:
        return lambda: bus.request(_ECHO, _PAYLOAD)
    config = {"name": "BENCH", "subjects": [_STORED], "storage": "file", "max_msgs": 10_000}
    await bus.api("STREAM.CREATE.BENCH", config)
    return lambda: bus.put(_STORED, _PAYLOAD)
