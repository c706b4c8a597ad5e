"""Where a turn can stop without losing anything: between two steps, while none is under way."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Optional


@dataclass(slots=True, eq=False)
class _Step:
    """A step that is under way, unless one inside it `waits`. One that is safe may be made again as a whole."""

    outer: Optional["_Step"]
    safe: bool
    waits: int = 0

    def chain(self) -> "Iterator[_Step]":
        """This step and those that it is inside of."""
        step: _Step | None = self
        while step is not None:
            yield step
            step = step.outer


_inside: ContextVar[_Step | None] = ContextVar("the step that is under way", default=None)


class Boundary:
    """Of one attempt. After `stop`, no further step begins; `reached` is called once when those under way have ended.

    Whoever listens then cancels the attempt, after `ending` is set: a step that waits here never begins.
    """

    def __init__(self) -> None:
        self.ending = False
        self._under_way = 0
        self._waiting = 0
        self._stopping = False
        self._held = asyncio.Event()
        self._reached: Callable[[], None] | None = None

    def stop(self, reached: Callable[[], None]) -> None:
        """Stop the attempt at its next boundary. One that has no further step ends as usual."""
        self._stopping, self._reached = True, reached
        self._check()

    @asynccontextmanager
    async def step(self, *, safe: bool = False) -> AsyncGenerator[None]:
        """Make a step inside the block. One inside another waits only if the other is safe: that is made again then."""
        outer = _inside.get()
        if self._stopping and (outer is None or all(step.safe for step in outer.chain())):
            await self._wait(outer)
        self._under_way += 1
        token = _inside.set(_Step(outer, safe))
        try:
            yield
        finally:
            _inside.reset(token)
            self._under_way -= 1
            self._check()

    @contextmanager
    def elsewhere(self) -> Generator[None]:
        """Wait inside the block for what goes on without this attempt, and which the next one finds again."""
        self._waiting += 1
        try:
            self._check()
            yield
        finally:
            self._waiting -= 1

    def hold(self) -> None:
        """From here on there is no boundary, and no step waits: something has begun whose end is not known."""
        self._held.set()

    async def _wait(self, outer: _Step | None) -> None:
        self._waiting += 1
        try:
            with self._suspended(outer):
                self._check()
                await self._held.wait()
        finally:
            self._waiting -= 1

    @contextmanager
    def _suspended(self, outer: _Step | None) -> Generator[None]:
        """Do not count the steps that wait for one inside them."""
        steps = list(outer.chain()) if outer is not None else []
        for step in steps:
            self._under_way -= not step.waits
            step.waits += 1
        try:
            yield
        finally:
            for step in steps:
                step.waits -= 1
                self._under_way += not step.waits

    def _check(self) -> None:
        free = not self._under_way and not self._held.is_set()
        if self._waiting and free and self._reached is not None:
            reached, self._reached = self._reached, None
            reached()
