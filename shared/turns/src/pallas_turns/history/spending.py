"""What calls of models have spent, as the log says: of a turn, or of all turns in a time.

Calls of every attempt count, also of lost ones. A call that a worker has sent twice counts once.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.reads import Record, read
from pallas_contracts.catalog import TURN_EVENT, TURN_LOG
from pallas_contracts.contract import Stream
from pallas_contracts.costs import NO_SPENDING, Spending, day_of
from pallas_contracts.turns import ModelCalled, TurnEvents
from pallas_turns.claims import TurnRef

MOST_ATTEMPTS = 100_000
"""Attempts whose calls are remembered. A call that is sent again after that many others would count twice."""

_CALLED = b'"model_called"'


@dataclass
class NewCalls:
    """Finds the calls of models in messages of the log, each once. A call has its turn, its attempt and a number."""

    _seen: dict[tuple[str, int], int] = field(default_factory=dict["tuple[str, int]", int])

    def of(self, message: TurnEvents) -> Iterator[ModelCalled]:
        """The calls in a message that were in no message before."""
        calls = [event for event in message.events if isinstance(event, ModelCalled)]
        if not calls:
            return
        attempt = message.turn_id, message.attempt
        seen = self._seen.pop(attempt, 0)  # and in again behind all others: the first one is the least recent
        for call in calls:
            if not seen >> call.seq & 1:
                yield call
            seen |= 1 << call.seq
        self._seen[attempt] = seen
        if len(self._seen) > MOST_ATTEMPTS:
            del self._seen[next(iter(self._seen))]


def with_calls(record: Record) -> TurnEvents | None:
    """A message of `turn.event` that has calls of models. None: it has none.

    Raises:
        ValidationError: it cannot be read.
    """
    return TurnEvents.model_validate_json(record.data) if has_calls(record) else None


def has_calls(record: Record) -> bool:
    """Whether a message of `turn.event` may have calls of models."""
    return _CALLED in record.data


def spending_of(team: str, call: ModelCalled) -> Spending:
    """What a call of a model in a turn of `team` has spent. Its day is that of the worker's clock."""
    return Spending(
        day=day_of(datetime.fromtimestamp(call.at / 1000, UTC)),
        team=team,
        caller=call.caller,
        calls=1,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cached_tokens=call.cached_tokens,
        unpriced_calls=call.cost is None,
        money={call.cost.currency: call.cost.nanos} if call.cost is not None else {},
    )


async def read_calls(
    bus: Bus, *, since: datetime | None = None, until: datetime | None = None, **ids: str
) -> AsyncGenerator[tuple[TurnEvents, ModelCalled]]:
    """Yield the calls that were stored from `since` to before `until`; with `ids`, of one team, agent or turn.

    Raises:
        Unavailable: the broker does not answer.
    """
    new = NewCalls()
    async with aclosing(read(bus, TURN_LOG.name, TURN_EVENT.template.filter(**ids), since=since)) as records:
        async for record in records:
            if until is not None and record.time >= until:
                return
            try:
                message = with_calls(record)
            except ValidationError:
                continue
            if message is not None:
                for call in new.of(message):
                    yield message, call


async def turn_spending(bus: Bus, ref: TurnRef) -> Spending:
    """What a turn has spent so far.

    Raises:
        Unavailable: the broker does not answer.
    """
    total = NO_SPENDING
    async with aclosing(read_calls(bus, team=ref.team, agent=ref.agent, turn=ref.turn_id)) as calls:
        async for _, call in calls:
            total = total.plus(spending_of(ref.team, call))
    return total


LARGEST = 100_000
"""Positions of the largest window."""


@dataclass(frozen=True, slots=True)
class Window:
    """The messages that were found from the position `start` on, up to the window before."""

    start: int
    records: list[Record]


async def windows(
    bus: Bus,
    stream: Stream,
    *subjects: str,
    size: int,
    since: datetime | None = None,
    until: datetime | None = None,
    keep: Callable[[Record], bool] = lambda _: True,
    largest: int = LARGEST,
) -> AsyncGenerator[Window]:
    """Yield the messages on `subjects` that were stored from `since` to before `until`, the latest window first.

    The first window has `size` positions, and each further one twice as many, at most `largest`. In a window, the
    messages are in the order of the subjects, and those of each in the order of the log. Only those that `keep` says
    are held.

    Raises:
        Unavailable: the broker does not answer.
    """
    state = (await bus.api(f"STREAM.INFO.{stream.name}", {}))["state"]
    begin: int = state["first_seq"]
    end: int = state["last_seq"] + 1
    if since is not None:
        begin = await position_at(bus, stream, since, otherwise=end)
    if until is not None:
        end = await position_at(bus, stream, until, otherwise=end)
    while begin < end:
        start = max(begin, end - size)
        found = [
            record for subject in subjects async for record in _window(bus, stream, subject, start, end) if keep(record)
        ]
        yield Window(start, found)
        end, size = start, min(size * 2, largest)


async def time_at(bus: Bus, stream: Stream, position: int) -> datetime | None:
    """When the first message from `position` on was stored; None: there is none."""
    async with aclosing(read(bus, stream.name, ">", after=position - 1, batch=1)) as records:
        first = await anext(records, None)
    return first.time if first is not None else None


async def _window(bus: Bus, stream: Stream, subject: str, start: int, end: int) -> AsyncGenerator[Record]:
    async with aclosing(read(bus, stream.name, subject, after=start - 1)) as records:
        async for record in records:
            if record.seq >= end:
                return
            yield record


async def position_at(bus: Bus, stream: Stream, moment: datetime, *, otherwise: int) -> int:
    """The position of the first message that was stored at `moment` or later."""
    async with aclosing(read(bus, stream.name, ">", since=moment, batch=1)) as records:
        first = await anext(records, None)
    return first.seq if first is not None else otherwise
