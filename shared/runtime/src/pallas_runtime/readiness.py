"""Checks the dependencies of a process once a second, such as its database. `/readyz` shows the last results."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from pallas_contracts.errors import Unavailable

INTERVAL = 1.0
NOT_CHECKED = "not checked yet"


@dataclass
class Readiness:
    """The dependencies by name, each with its check, which raises `Unavailable`."""

    checks: Mapping[str, Callable[[], Awaitable[None]]]
    _missing: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def missing(self, name: str) -> str | None:
        """What is wrong with a dependency, as of its last check; None if nothing."""
        return self._missing.get(name, NOT_CHECKED)

    async def check(self) -> None:
        """Check all dependencies once."""
        await asyncio.gather(*(self._check(name, check) for name, check in self.checks.items()))

    async def keep_checking(self) -> None:
        """Check once a second, until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(INTERVAL)

    async def _check(self, name: str, check: Callable[[], Awaitable[None]]) -> None:
        try:
            await check()
        except Unavailable as error:
            self._missing[name] = error.message
        else:
            self._missing[name] = None
