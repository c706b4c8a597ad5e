"""Lists turns, the latest first, without reading more of the log than necessary.

Turns that wait or run are in the queue. The log is scanned backwards, in windows, for the others: for claims if the
filter is about the caller, for outcomes if it is about the state. The rest of a turn that was found is read by its own
subjects.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import batched

from pallas_bus.connection import Bus
from pallas_bus.reads import Record, read, read_last
from pallas_contracts.catalog import TURN_CLAIM, TURN_EVENT, TURN_LOG, TURN_OUTCOME, TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.contract import Contract
from pallas_contracts.turns import TurnClaim, TurnEvents, TurnOutcome
from pallas_turns.history.spending import windows
from pallas_turns.history.turns import State, TurnHistory, fold

_FIRST_WINDOW = 10_000
"""Positions in the first window; each further window is twice as large."""

_MOST = 400
"""Subjects in one request; the broker answers for 1024 at most."""

_NEVER = datetime.fromtimestamp(0, UTC)

type _Scanned = Contract[TurnClaim] | Contract[TurnOutcome]


@dataclass(frozen=True, slots=True)
class TurnFilter:
    """Which turns are wanted. None in a field matches all.

    `caller` is a part of `type:id`; `conversation` and `task` are keyed hashes. `code` is that of a failure, and
    `least_seconds` is how long a turn took at least, with its wait: only turns that are over have these. A turn that is
    over matches if its
    claim or outcome was stored between `since` and `until`; one that waits or runs, if it was requested before `until`.
    `before` is the place of a turn in the list: only those that were requested before it match.
    """

    team: str | None = None
    agent: str | None = None
    caller: str | None = None
    state: State | None = None
    conversation: str | None = None
    task: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, str] | None = None
    code: str | None = None
    least_seconds: float | None = None

    def matches(self, turn: TurnHistory) -> bool:
        """Whether the turn matches, apart from `since` and `until`."""
        return (self.before is None or place_of(turn) < self.before) and (
            self.state in (None, turn.state)
            and self.conversation in (None, turn.conversation)
            and self.task in (None, turn.task)
            and (self.caller is None or self.caller in (turn.caller or ""))
            and self.ended_so(turn)
        )

    def ended_so(self, turn: TurnHistory) -> bool:
        """Whether the turn has the wanted end."""
        if self.code is None and self.least_seconds is None:
            return True
        if turn.outcome is None or self.code not in (None, turn.outcome.code):
            return False
        asked = turn.requested_at
        took = (turn.outcome.ended_at - asked).total_seconds() if asked is not None else 0.0
        return took >= (self.least_seconds or 0.0)

    @property
    def by_caller(self) -> bool:
        """Whether it is about what only requests and claims have."""
        return (self.caller, self.conversation, self.task) != (None, None, None)

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the filter that are part of subjects."""
        return {name: value for name, value in (("team", self.team), ("agent", self.agent)) if value is not None}

    @property
    def scanned(self) -> tuple[_Scanned, ...]:
        """The messages that are scanned for wanted turns."""
        if self.state in ("waiting", "running"):
            return ()
        if self.by_caller:
            return (TURN_CLAIM,)
        by_end = (self.state, self.code, self.least_seconds) != (None, None, None)
        return (TURN_OUTCOME,) if by_end else (TURN_CLAIM, TURN_OUTCOME)

    def may_match(self, record: Record) -> bool:
        """Whether a scanned message may be of a wanted turn, by its bytes, so that most messages need not be parsed."""
        hashed = self.conversation or self.task
        word = self.caller.rpartition(":")[2] if self.caller is not None else self.code or self.state or ""
        plain = word.isascii() and word.isprintable() and not set(word) & {'"', "\\"}
        return (hashed or (word if plain else "")).encode() in record.data


def place_of(turn: TurnHistory) -> tuple[datetime, str]:
    """Where a turn is in a list: by the time of its request, and by its id where two have the same."""
    return turn.requested_at or _NEVER, turn.turn_id


async def find_turns(bus: Bus, wanted: TurnFilter, *, limit: int) -> list[TurnHistory]:
    """The latest `limit` turns that match, ordered by the time of their request.

    Of the attempts of a turn, only the last may be included, and of its events only the last of a turn without outcome.

    Raises:
        Unavailable: the broker does not answer.
        Rejected: a team or agent is not a token (`bad_token`).
    """
    found = await _queued(bus, wanted)
    if wanted.scanned:
        found |= await _logged(bus, wanted, found, limit)
    return sorted(found.values(), key=place_of)[-limit:]


async def _logged(
    bus: Bus, wanted: TurnFilter, queued: Mapping[str, TurnHistory], limit: int
) -> dict[str, TurnHistory]:
    """Wanted turns in the log, the latest; with those that are queued there are at least `limit`."""
    found: dict[str, TurnHistory] = {}
    subjects = (contract.template.filter(**wanted.ids) for contract in wanted.scanned)
    reading = windows(
        bus,
        TURN_LOG,
        *subjects,
        size=_FIRST_WINDOW,
        keep=wanted.may_match,
        since=wanted.since,
        until=wanted.until,
    )
    async with aclosing(reading) as log:
        async for window in log:
            turns = {name: turn for name, turn in fold(window.records).items() if name not in {**queued, **found}}
            await complete(bus, turns)
            found |= {name: turn for name, turn in turns.items() if wanted.matches(turn)}
            if len(queued) + len(found) >= limit:
                break
    return found


async def turns_by_id(bus: Bus, ids: Collection[str]) -> dict[str, TurnHistory]:
    """The turns of these ids that the log or a queue has, by id. What they hold is said at `find_turns`.

    Raises:
        Unavailable: the broker does not answer.
        Rejected: an id is not a token (`bad_token`).
    """
    queue = fold([record async for record in read(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter())])
    found = {name: turn for name, turn in queue.items() if name in ids}
    for some in batched((name for name in ids if name not in found), _MOST, strict=False):
        subjects = (each.template.filter(turn=name) for name in some for each in (TURN_CLAIM, TURN_OUTCOME))
        found |= fold(await read_last(bus, TURN_LOG.name, *subjects))
    await complete(bus, found)
    return found


async def _queued(bus: Bus, wanted: TurnFilter) -> dict[str, TurnHistory]:
    """The wanted turns in the queue: those that wait or run, and some that have just ended."""
    turns = fold([record async for record in read(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter(**wanted.ids))])
    if wanted.until is not None:
        turns = {name: turn for name, turn in turns.items() if (turn.requested_at or _NEVER) <= wanted.until}
    await complete(bus, turns)
    return {name: turn for name, turn in turns.items() if wanted.matches(turn)}


async def complete(bus: Bus, turns: dict[str, TurnHistory]) -> None:
    """Read the last claim and the outcome of turns that lack them; of a cancelled turn, also the claim before.

    Of a turn without outcome, read the last events: they say whether its worker has given it back.
    """
    await _take(bus, turns, TURN_CLAIM, [turn for turn in turns.values() if not turn.attempts])
    await _take(bus, turns, TURN_OUTCOME, [turn for turn in turns.values() if turn.outcome is None])
    for turn in turns.values():
        if turn.cancel is not None and not turn.attempts:
            async for record in read(bus, TURN_LOG.name, turn.ref.on(TURN_CLAIM.template)):
                turn.take(record)
    await _take(bus, turns, TURN_EVENT, [turn for turn in turns.values() if turn.attempts and turn.outcome is None])


async def _take(
    bus: Bus, turns: dict[str, TurnHistory], contract: _Scanned | Contract[TurnEvents], lacking: Iterable[TurnHistory]
) -> None:
    for some in batched(lacking, _MOST, strict=False):
        subjects = [turn.ref.on(contract.template) for turn in some]
        for record in await read_last(bus, TURN_LOG.name, *subjects):
            turns[record.subject.rpartition(".")[2]].take(record)
