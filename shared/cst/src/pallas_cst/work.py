"""How much one run of a program may do, and how it shares the event loop with others.

A run is counted in steps: one for each expression that is computed, and one for each 256 bytes that are made or looked
at. Work on large values is done in a thread. All other work of all runs together takes about 5 ms in one round of the
event loop, then it waits for the next one. The values of all runs that go on share a room (`Memory`), since a run may
wait for long.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from weakref import WeakKeyDictionary

from pallas_cst.faults import Span
from pallas_cst.values import Value, is_list, is_object, size_of

LARGE = 2**17
"""Bytes that are worked on in a thread."""

_SLICE = 0.005
_OFTEN = 64
_BYTES = 256


class RunFailed(Exception):
    """The program cannot be computed. `span` is the expression that failed."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


@dataclass(frozen=True, slots=True)
class Limits:
    """The most steps of a run, and the most bytes that a value it makes may have (estimated)."""

    steps: int = 1_000_000
    size: int = 16 * 2**20


_FREE = 2**20
"""Bytes of values that a run has besides its share."""


class Share:
    """What one run has taken of the memory. Made by `Memory.share`."""

    def __init__(self, memory: "Memory", owner: str) -> None:
        self._memory = memory
        self._owner = owner
        self._left = _FREE
        self.taken = 0

    def take(self, size: int) -> bool:
        """Take room for values; False: there is none."""
        self._left -= size
        if self._left >= 0:
            return True
        needed, self._left = -self._left, 0
        if not self._memory.take(self._owner, needed):
            return False
        self.taken += needed
        return True


@dataclass
class Memory:
    """Room for the values of all runs of a process, and for those of one owner: bytes, estimated."""

    total: int = 160 * 2**20
    of_owner: int = 64 * 2**20
    taken: Counter[str] = field(default_factory=Counter[str])

    @contextmanager
    def share(self, owner: str) -> Generator[Share]:
        """What a run takes inside the block, and gives back at its end."""
        share = Share(self, owner)
        try:
            yield share
        finally:
            self.taken[owner] -= share.taken
            if not self.taken[owner]:
                del self.taken[owner]

    def take(self, owner: str, size: int) -> bool:
        """Take room for an owner; False: there is none."""
        if self.taken[owner] + size > self.of_owner or self.taken.total() + size > self.total:
            return False
        self.taken[owner] += size
        return True


@dataclass
class _Turns:
    """Whose turn it is in an event loop, and until when."""

    until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


class Work:
    """The work of one run. `steps` may be counted up directly; `pause` must follow once it is `pause_at`."""

    def __init__(self, limits: Limits, share: Share | None = None) -> None:
        self.limits = limits
        self._share = share
        self.steps = 0
        self.pause_at = 0
        self._turns = _TURNS.setdefault(asyncio.get_running_loop(), _Turns())
        self._sizes: dict[int, tuple[Value, int]] = {}

    async def pause(self, span: Span) -> None:
        """Let others work, if it is time.

        Raises:
            RunFailed: there are too many steps.
        """
        if self.steps > self.limits.steps:
            raise RunFailed(f"the program takes more than {self.limits.steps} steps", span)
        if perf_counter() >= self._turns.until:
            self.pause_at = 0
            async with self._turns.lock:
                if perf_counter() >= self._turns.until:
                    await asyncio.sleep(0)
                    self._turns.until = perf_counter() + _SLICE
        self.pause_at = self.steps + _OFTEN

    async def charge(self, size: int, span: Span) -> None:
        """Count the work on so many bytes, at least as one step."""
        self.steps += max(1, size // _BYTES)
        if self.steps >= self.pause_at:
            await self.pause(span)

    async def on[R](self, size: int, span: Span, function: Callable[[], R]) -> R:
        """The result of work on so many bytes."""
        if size >= _BYTES:
            await self.charge(size, span)
        return function() if size < LARGE else await asyncio.to_thread(function)

    async def size(self, value: Value, span: Span) -> int:
        """The size of a value. That of a large one is remembered, and found without a second look."""
        if not (is_list(value) or is_object(value)):
            return size_of(value)
        if (known := self._sizes.get(id(value))) is not None:
            return known[1]
        size = await self._measured(value)
        await self.charge(size, span)
        return size

    async def _measured(self, value: Value) -> int:
        size = size_of(value, LARGE)
        if size >= LARGE:
            size = await asyncio.to_thread(size_of, value, self.limits.size)
            self._sizes[id(value)] = value, size
        return size

    async def got(self, value: Value, span: Span) -> Value:
        """A value that was not made here, for which room is taken."""
        if self._share is not None:
            self.hold(await self._measured(value), span)
        return value

    def hold(self, size: int, span: Span) -> None:
        """Take room for new values.

        Raises:
            RunFailed: there is none.
        """
        if self._share is not None and not self._share.take(size):
            raise RunFailed("the values of your programs that run take too much memory together", span)

    async def sizes(self, values: list[Value], span: Span) -> int:
        """The size of values together."""
        return sum([await self.size(each, span) for each in values])

    def made(self, value: Value, size: int) -> Value:
        """A new value, the size of which is known."""
        if size >= LARGE:
            self._sizes[id(value)] = value, size
        return value

    def limit(self, size: int, span: Span) -> int:
        """The size of a value that is to be made.

        Raises:
            RunFailed: it would be too large.
        """
        if size > self.limits.size:
            raise RunFailed(f"the value is larger than {self.limits.size} bytes", span)
        return size
