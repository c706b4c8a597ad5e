"""Work for a caller that ends when the caller disconnects."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive


async def while_connected(work: Awaitable[None], gone: Callable[[], Awaitable[None]]) -> None:
    """Do the work. When the caller disconnects (`gone()` returns), the work is cancelled and this returns."""
    task = asyncio.current_task()
    assert task is not None, "requests are served in tasks"
    left = False

    async def watch() -> None:
        nonlocal left
        await gone()
        left = True
        task.cancel()

    watching = asyncio.create_task(watch())
    try:
        await work
    except asyncio.CancelledError:
        if not left or task.uncancel():
            raise
    finally:
        watching.cancel()


async def disconnected(receive: Receive) -> None:
    """Wait until the caller disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
