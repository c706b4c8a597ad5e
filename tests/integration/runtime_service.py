"""A minimal service, to be started as a process of its own by the tests of `run`.

Its first argument says how it behaves: `fine`, `slow_start`, `slow_drain`, `fails`, `fails_starting`, `loses`,
`refused`, `unavailable`, `traces` (it makes a span) or `crashes`.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.responses import PlainTextResponse

from pallas_contracts.errors import Rejected, Unavailable
from pallas_runtime.process import Process
from pallas_runtime.run import Service, Simple, run
from pallas_runtime.settings import Settings
from pallas_runtime.telemetry import tracer


async def drain() -> None:
    """Print `drain`."""
    print("drain", flush=True)


async def drain_for_ever() -> None:
    """Print `drain`, and hang."""
    await drain()
    await asyncio.Event().wait()


@asynccontextmanager
async def build(_settings: Settings, process: Process) -> AsyncGenerator[Simple]:
    """Behave as the mode says."""
    match how := sys.argv[1]:
        case "refused":
            raise Rejected("the team folder 'x' is not there")
        case "unavailable":
            raise Unavailable("no broker")
        case "crashes":
            raise RuntimeError("a bug")
        case _:
            print(f"port {process.port}", flush=True)
    if how == "traces":
        tracer.start_span("a-span-of-the-example").end()
    try:
        if how == "fails_starting":
            process.failed.set()
        if how in ("slow_start", "fails_starting"):
            await asyncio.Event().wait()
        if how == "fails":
            process.failed.set()
        if how == "loses":
            process.vital(asyncio.create_task(lose("hunter2"), name="counting"))
        yield Simple(PlainTextResponse("mine"), drain_for_ever if how == "slow_drain" else drain)
    finally:
        print("closed", flush=True)


async def lose(secret: str) -> None:
    """A vital task that fails."""
    raise ValueError(f"cannot count {secret}")


if __name__ == "__main__":
    run(Service("example", Settings, build))
