"""Changes and look-ups while processes are killed. Answers must be no older than the changes confirmed before."""

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from redis.exceptions import RedisError
from tests.integration.real_parts import until
from tests.integration.stale.cell import Bearer, Cell, granted
from tests.integration.stale.parts import Accidents, Parts
from tests.waiting import eventually

from pallas_bus.ask import ask
from pallas_contracts.auth import ResolveBearer, Resolved
from pallas_contracts.catalog import RESOLVE
from pallas_contracts.errors import Denied, PallasError, Unavailable
from pallas_lookups.cache import open_cache

CELLS, READERS = 4, 2
_PATIENCE = 120.0
_ASKED_WITHIN = 1.0
_EVICT = """
local key = redis.call('RANDOMKEY')
local kind = key and string.match(key, '^pallas:lookup:(%l+):')
if kind == 'team' or kind == 'token' or kind == 'key' then
  redis.call('DEL', key)
end
"""


@dataclass
class Storm:
    """One run. `verdicts` counts answers; `faults` are the first that were not right."""

    parts: Parts
    seed: int
    verdicts: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    accidents: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.cells = [Cell(str(number), self.parts, random.Random(f"{self.seed}-{number}")) for number in range(CELLS)]
        self._dice = random.Random(f"{self.seed}-accidents")
        self._over = False

    @property
    def interleaved(self) -> int:
        """Changes that were confirmed and look-ups that were answered."""
        return self.changes + sum(self.verdicts.values()) - self.verdicts["unavailable"]

    @property
    def changes(self) -> int:
        """Changes that were confirmed."""
        return sum(cell.changes for cell in self.cells)

    async def run(self, most: int, within: float, *, accidents: bool) -> None:
        """Go on until `most` changes and look-ups were made, one of a hundred a change, and all accidents have
        happened, or a stale answer was given. Then everything is quiet, and each bearer is looked at once more.

        Raises:
            TimeoutError: it took longer than `within` seconds.
        """
        async with asyncio.timeout(within):
            await asyncio.gather(*(cell.prepare() for cell in self.cells))
            async with asyncio.TaskGroup() as group:
                for cell in self.cells:
                    group.create_task(cell.work(self._is_over))
                    for _ in range(READERS):
                        group.create_task(self._read(cell))
                group.create_task(self._evict())
                if accidents:
                    await asyncio.gather(*(self._harm(each, most) for each in self.parts.accidents(self._dice)))
                await eventually(lambda: self._has_seen(most) or self.verdicts["stale"] > 0, within)
                self._over = True
            for cell in self.cells:
                for bearer in cell.looked_at():
                    await until(partial(self._answered, bearer), within)

    def _has_seen(self, most: int) -> bool:
        return self.interleaved >= most and self.changes > most / 100

    def _is_over(self) -> bool:
        return self._over

    async def _harm(self, accidents: Accidents, most: int) -> None:
        """Let accidents happen, spread over the first half of the run."""
        for number, (name, happen) in enumerate(accidents):
            begins = most * number / len(accidents) / 2
            await eventually(lambda begins=begins: self.interleaved >= begins, _PATIENCE)
            await asyncio.sleep(self._dice.uniform(0, 0.1))
            self.accidents.append(name)
            await happen()

    async def _read(self, cell: Cell) -> None:
        while not self._over:
            await self._look(cell.dice.choice(cell.looked_at()))

    async def _look(self, bearer: Bearer) -> str:
        began = time.monotonic()
        try:
            outcome = granted(list((await self._resolve(bearer.text)).libraries))
        except Denied as error:
            outcome = error.code
        except Unavailable:
            self.verdicts["unavailable"] += 1
            await asyncio.sleep(0.005)
            return "unavailable"
        except PallasError as error:
            outcome = f"failed: {error.code}"
        verdict = bearer.history.judge(outcome, began, time.monotonic())
        self.verdicts[verdict] += 1
        if verdict != "right" and len(self.faults) < 5:
            states = [(state.outcome, state.sent - began, state.confirmed) for state in bearer.history.states[-4:]]
            self.faults.append(f"{verdict}: {outcome}, of {states}, began {began}")
        return verdict

    async def _resolve(self, text: str) -> Resolved:
        return await ask(self.parts.gateway, RESOLVE, ResolveBearer(bearer=text), timeout=_ASKED_WITHIN)

    async def _answered(self, bearer: Bearer) -> bool:
        return await self._look(bearer) != "unavailable"

    async def _evict(self) -> None:
        """Delete random entries from Redis, as if they had expired, so that readers ask team-lifecycle."""
        async with open_cache(self.parts.redis.url) as cache:
            evict = cache.redis.register_script(_EVICT)
            while not self._over:
                with suppress(RedisError, OSError):
                    await evict()
                await asyncio.sleep(0.002)
