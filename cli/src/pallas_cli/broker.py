"""The way from a command to a running platform: its broker."""

import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pallas_cli.refused import Refused

if TYPE_CHECKING:
    from pallas_bus.connection import Bus

DEFAULT_NATS = "nats://127.0.0.1:23060"

NatsUrl = Annotated[str, typer.Option("--nats", envvar="PALLAS_NATS_URL", help="Address of the NATS servers.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@asynccontextmanager
async def platform(url: str) -> AsyncGenerator["Bus"]:
    """Connect to the broker.

    Raises:
        Refused: nothing answers there.
    """
    from pallas_bus.connection import connect
    from pallas_contracts.catalog import CLI
    from pallas_contracts.errors import Unavailable

    logging.getLogger("pallas_bus").addHandler(logging.NullHandler())  # what went wrong is said by the command itself
    try:
        async with connect(url, CLI, timeout=3.0) as bus:
            yield bus
    except Unavailable as error:
        hint = "" if "PALLAS_NATS_URL" in os.environ else "; is `pallas up` running? (--nats says where else to look)"
        raise Refused(f"{error.message}{hint}") from error


def run_on(url: str, work: "Callable[[Bus], Awaitable[None]]") -> None:
    """Run `work` with a connection, until it ends or Ctrl-C."""
    import asyncio

    async def main() -> None:
        async with platform(url) as bus:
            await work(bus)

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
