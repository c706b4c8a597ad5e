"""One call of a program with its options.

From the inside out: time limit, retries, cache, fallback, `on_error`. Before each try, a call waits for its slot by
priority, and for throttle and concurrency; its time limit counts from then on. A function of the standard library
always gives the same, so only fallback and `on_error` count for it.
"""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from weakref import WeakValueDictionary

from cachetools import LRUCache

from pallas_contracts.agents import JsonObject
from pallas_cst import syntax as s
from pallas_cst.evaluate import Calling, RunFailed
from pallas_cst.faults import Span
from pallas_cst.values import Unfit, Value, failed, from_json, size_of, succeeded, zero_value
from pipelines.modules.module import Module
from pipelines.programs import Program
from pipelines.running.answers import MOST_BYTES, Answer, Failure, worked_on
from pipelines.running.cache import Cache, cache_key
from pipelines.running.children import Children

log = logging.getLogger(__name__)

_MOST_RATES = 1000
"""Rates of modules. One that was not used for long is forgotten."""


class PrioritySlots:
    """A number of slots. Of those that wait for one, the highest priority is next, and the first of equal ones.

    `taken` counts the slots that were taken.
    """

    def __init__(self, slots: int) -> None:
        self.taken = 0
        self._free = slots
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrival = count()

    @asynccontextmanager
    async def slot(self, priority: int) -> AsyncGenerator[None]:
        """Hold a slot inside the block."""
        self.taken += 1
        if self._free:
            self._free -= 1
        else:
            await self._wait(priority)
        try:
            yield
        finally:
            self._give()

    async def _wait(self, priority: int) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-priority, next(self._arrival), granted))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._give()
            raise

    def _give(self) -> None:
        while self._waiting:
            *_, granted = heapq.heappop(self._waiting)
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1


class Pacing:
    """The options `throttle` and `concurrency`. They hold for all executions in this process."""

    def __init__(self) -> None:
        self._running = WeakValueDictionary[tuple[str, int], asyncio.Semaphore]()
        self._begun = LRUCache[tuple[str, int, float], deque[float]](_MOST_RATES)

    @asynccontextmanager
    async def concurrency(self, module: str, most: int | None) -> AsyncGenerator[None]:
        """Be one of at most `most` calls of a module that run; None: of any number."""
        if most is None:
            yield
            return
        running = self._running.setdefault((module, most), asyncio.Semaphore(most))
        async with running:
            yield

    async def throttle(self, module: str, most: int, seconds: float) -> None:
        """Wait until fewer than `most` calls of a module have begun in the last `seconds`.

        A call takes the next free time at once, so calls begin in their order.
        """
        clock = asyncio.get_running_loop().time
        key = (module, most, seconds)
        begun = self._begun[key] = self._begun.get(key) or deque(maxlen=most)
        begins = max(clock(), begun[0] + seconds) if len(begun) == most else clock()
        begun.append(begins)
        await asyncio.sleep(begins - clock())


MOST_TRIES = 20_000
"""Calls of tools that one attempt at an execution makes, each try counted."""

_LONGEST_DELAY = 30.0
_PRIORITIES = {"critical": 100, "high": 80, "normal": 50, "low": 20, "background": 0}


class NodeFailed(Exception):
    """A call of a tool has failed for good. `span` is the call."""

    def __init__(self, module: Module, failure: Failure, span: Span) -> None:
        self.message = f"{module.name} failed ({failure.code}): {failure.message}"
        super().__init__(self.message)
        self.span = span


@dataclass
class Nodes:
    """The calls of one execution. `call` is the callback of its evaluation.

    `prefix` is put in front of places: the item of a batch. `called` counts the tools that were called.
    """

    program: Program
    children: Children
    pacing: Pacing
    slots: PrioritySlots
    cache: Cache
    prefix: str = ""
    called: int = 0

    async def call(self, calling: Calling) -> Value:
        """The value of a call with its options.

        Raises:
            NodeFailed, RunFailed: it has failed, and nothing stands in for it.
        """
        wraps = calling.call.options.on_error == "wrap"
        try:
            value = await (self._of_tool(calling) if calling.compute is None else calling.compute())
        except (NodeFailed, RunFailed) as error:
            if calling.fallback is None:
                return _stand_in(calling, error)
            value = await calling.fallback()
        return succeeded(value) if wraps else value

    async def _of_tool(self, calling: Calling) -> Value:
        module = self.program.modules.by_basis[calling.function.module]
        place = f"{self.prefix}{calling.place}"
        self.called += 1
        try:
            if size_of(calling.arguments, MOST_BYTES) > MOST_BYTES:
                raise Unfit(f"the arguments are larger than {MOST_BYTES} bytes")
            arguments = calling.function.input_of(calling.arguments)
            answer = await self._answer(calling.call.options, module, place, arguments)
            if isinstance(answer, Failure):
                raise NodeFailed(module, answer, calling.call.span)
            returns = calling.function.returns
            return await worked_on(answer.value, partial(from_json, answer.value, returns), returns)
        except Unfit as error:
            raise NodeFailed(module, Failure("invalid_answer", str(error)), calling.call.span) from None

    async def _answer(self, options: s.Options, module: Module, place: str, arguments: JsonObject) -> Answer | Failure:
        """The answer from the cache, or of the first try that succeeds.

        An answer from the cache is in the journal as one of the first try, so that later attempts see the same.
        """
        if options.cache is None:
            return await self._retried(options, module, place, arguments)
        caller, revision = self.children.attempt.turn.principal, module.definition.revision
        key = cache_key(caller, module.basis, revision, arguments)
        first = f"{place}.1"
        answered = self.children.has_answer(first, module)
        if not answered and (kept := await self.cache.get(key, options.cache_backend)) is not None:
            return await self.children.take(first, module, kept)
        answer = await self._retried(options, module, place, arguments)
        if isinstance(answer, Answer):
            await self.cache.put(key, options.cache_backend, answer, options.cache.seconds)
        return answer

    async def _retried(self, options: s.Options, module: Module, place: str, arguments: JsonObject) -> Answer | Failure:
        """The answer of the first try that succeeds. What may have taken effect is repeated only if it may be."""
        tries = (options.retry or 0) + 1
        answer: Answer | Failure = await self._tried(options, module, f"{place}.1", arguments)
        for number in range(2, tries + 1):
            if isinstance(answer, Answer) or self.slots.taken >= MOST_TRIES:
                break
            if answer.unknown and not module.repeatable:
                said = f"{answer.message.rstrip('.')}. It may have taken effect, so it is not called again."
                return Failure(answer.code, said, unknown=True)
            if not self.children.has_answer(f"{place}.{number}", module):
                await asyncio.sleep(_delay(options, number - 1))
            answer = await self._tried(options, module, f"{place}.{number}", arguments)
        return answer

    async def _tried(self, options: s.Options, module: Module, call: str, arguments: JsonObject) -> Answer | Failure:
        seconds = options.timeout.seconds if options.timeout is not None else None
        if self.slots.taken >= MOST_TRIES:
            return Failure("node_failed", f"the execution has made {MOST_TRIES} calls, which is the limit")
        if self.children.has_answer(call, module):
            return await self.children.call(call, module, arguments, seconds)
        if (rate := options.throttle) is not None:
            await self.pacing.throttle(module.basis, rate.count, rate.per.seconds)
        async with self.pacing.concurrency(module.basis, options.concurrency), self.slots.slot(_priority(options)):
            return await self.children.call(call, module, arguments, seconds)


def _stand_in(calling: Calling, error: NodeFailed | RunFailed) -> Value:
    """What `on_error` puts in the place of the value; raises the error otherwise."""
    match calling.call.options.on_error:
        case "wrap":
            return failed(error.message)
        case "skip":
            return zero_value(calling.function.returns)
        case "log":
            log.warning("a call failed and is skipped", extra={"called": calling.function.qualified})
            return zero_value(calling.function.returns)
        case _:
            raise error


def _delay(options: s.Options, number: int) -> float:
    """Seconds before further try `number`, from 1: `delay`, times the number or doubled each time by `backoff`."""
    if options.delay is None:
        return 0.0
    factor = {"linear": number, "exponential": 2 ** min(number - 1, 10)}.get(options.backoff or "", 1)
    return min(options.delay.seconds * factor, _LONGEST_DELAY)


def _priority(options: s.Options) -> int:
    match options.priority:
        case None:
            return _PRIORITIES["normal"]
        case int(number):
            return max(0, min(100, number))
        case str(word):
            return _PRIORITIES[word]
