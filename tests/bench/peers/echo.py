"""The other end of a NATS round trip: answers every request with its own payload. Takes the broker's URL."""

import asyncio
import sys

import uvloop
from nats.aio.msg import Msg

from pallas_bus.connection import connect

SUBJECT = "bench.echo"


async def answer(url: str) -> None:
    """Answer until the process is ended."""
    async with connect(url, "bench-echo") as bus:

        async def heard(message: Msg) -> None:
            await bus.send(message.reply, message.data)

        await bus.subscribe(SUBJECT, heard)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(answer(sys.argv[1]))
