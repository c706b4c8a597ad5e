"""The other end of a NATS round trip: answers every request with its own payload, or with one of a given size.

Takes the broker's URL and, for the latter, the size in bytes.
"""

import asyncio
import sys

import uvloop
from nats.aio.msg import Msg

from pallas_bus.connection import connect

SUBJECT = "bench.echo"


async def answer(url: str, size: str | None = None) -> None:
    """Answer until the process is ended."""
    fixed = b"x" * int(size) if size is not None else None
    async with connect(url, "bench-echo") as bus:

        async def on_message(message: Msg) -> None:
            await bus.send(message.reply, message.data if fixed is None else fixed)

        await bus.subscribe(SUBJECT, on_message)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(answer(*sys.argv[1:]))
