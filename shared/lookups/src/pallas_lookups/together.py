"""Reads of one moment travel together: one command to Redis costs far more than one more key in it.

While a command is under way, further reads gather for the next one. None joins a command that was sent before the read
began, for its answer could be older than what the reader has been promised.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

MOST = 500
"""Reads in one command."""


class Together[V]:
    """Reads by name with `fetch`. Whatever `fetch` raises, everybody who waits for that command hears it."""

    def __init__(self, fetch: Callable[[list[str]], Awaitable[list[V]]]) -> None:
        self._fetch = fetch
        self._waiting: list[tuple[Sequence[str], asyncio.Future[dict[str, V]]]] = []
        self._fetching: asyncio.Task[None] | None = None

    async def read(self, names: Sequence[str]) -> dict[str, V]:
        """The values of these names, among others.

        Raises:
            Unavailable: they cannot be read.
            Exception: what else `fetch` raised.
        """
        answer: asyncio.Future[dict[str, V]] = asyncio.get_running_loop().create_future()
        self._waiting.append((names, answer))
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch_all())
        return await answer

    async def _fetch_all(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                await self._fetch_for(waiting)
        finally:
            self._fetching = None

    async def _fetch_for(self, waiting: Sequence[tuple[Sequence[str], asyncio.Future[dict[str, V]]]]) -> None:
        names = list(dict.fromkeys(name for wanted, _ in waiting for name in wanted))
        try:
            found = dict(zip(names, await self._fetch(names), strict=True))
        except Exception as error:
            expected = isinstance(error, Unavailable)
            if not expected:
                log.exception("a command for several reads failed")
            for _, answer in waiting:
                if not answer.done():  # whoever asked may have gone
                    answer.set_exception(Unavailable(error.message, code=error.code) if expected else error)
            return
        for _, answer in waiting:
            if not answer.done():
                answer.set_result(found)
