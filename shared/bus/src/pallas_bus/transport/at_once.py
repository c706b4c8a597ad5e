"""Does something for many items, a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable


async def for_each[I, R](items: Iterable[I], do: Callable[[I], Awaitable[R]], *, at_once: int) -> list[R]:
    """Call `do` with every item, at most `at_once` at a time. The results are in the order of the items."""
    limit = asyncio.Semaphore(at_once)

    async def one(item: I) -> R:
        async with limit:
            return await do(item)

    return await asyncio.gather(*map(one, items))
