"""Single flight: reads that come at the same time share one command, because a command costs far more than its keys.

While a command is under way, further reads wait for the next one. A read never joins a command that was sent before the
read began: the answer could be older than the reader may rely on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

MOST = 500
"""Reads that share one command at most."""


class SingleFlight[V]:
    """Reads values by name with `fetch`. An error of `fetch` is raised in every read that shares the command."""

    def __init__(self, fetch: Callable[[list[str]], Awaitable[list[V]]]) -> None:
        self._fetch = fetch
        self._waiting: list[tuple[Sequence[str], asyncio.Future[dict[str, V]]]] = []
        self._fetching: asyncio.Task[None] | None = None

    async def read(self, names: Sequence[str]) -> dict[str, V]:
        """Read these names. The answer may hold more.

        Raises:
            Unavailable: `fetch` raised it.
            Exception: any other error of `fetch`.
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
                log.exception("a shared read failed")
            for _, answer in waiting:
                if not answer.done():  # the read may have been cancelled
                    answer.set_exception(Unavailable(error.message, code=error.code) if expected else error)
            return
        for _, answer in waiting:
            if not answer.done():
                answer.set_result(found)
