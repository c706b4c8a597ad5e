"""The turns of a backup that had no outcome then: what they had begun, and what an operator has decided about each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from pallas_bus.history.turn_list import complete
from pallas_bus.history.turns import TurnHistory, fold
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import count_by_subject, read
from pallas_bus.transport.snapshots import stream_state
from pallas_bus.turnlog.decide import OpenTurn
from pallas_contracts.backups import Hold, TurnDecided
from pallas_contracts.catalog import (
    TURN_CLAIM,
    TURN_DECIDED,
    TURN_EVENT,
    TURN_LOG,
    TURN_OUTCOME,
    TURN_QUEUE,
    TURN_REQUESTED,
)
from pallas_contracts.turns import ToolCompleted, ToolFailed, ToolStarted


@dataclass(frozen=True, slots=True)
class Begun:
    """A tool that was started. It may have taken effect, whether or not it `answered`. One that is `safe` may be called
    again."""

    tool: str
    safe: bool
    answered: bool


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A turn without an outcome. `forgotten`: its log has expired, so what it had begun is not known."""

    turn: TurnHistory
    forgotten: bool = False

    @property
    def decided(self) -> TurnDecided | None:
        """The last decision about it."""
        return self.turn.decided[-1] if self.turn.decided else None

    @property
    def is_open(self) -> bool:
        """Whether an operator has still to decide. A decision that was not carried out counts as none."""
        return self.decided is None or self.decided.decision != "run"

    @property
    def begun(self) -> list[Begun]:
        """The tools with effects outside that its attempts have started, in order."""
        return list(_begun(self.turn))

    @property
    def opened(self) -> OpenTurn:
        """The turn, to decide about it."""
        last = self.turn.attempts.get(max(self.turn.attempts, default=0))
        claim = last.claim if last is not None else None
        return OpenTurn(self.turn.ref, self.turn.request, self.turn.position, claim)


def _begun(turn: TurnHistory) -> Iterator[Begun]:
    for number in sorted(turn.attempts):
        events = turn.attempts[number].in_order()
        answered = {event.call for event in events if isinstance(event, ToolCompleted | ToolFailed)}
        for event in events:
            if isinstance(event, ToolStarted) and event.leaf:
                yield Begun(f"{event.server}/{event.tool}", event.safe, event.call in answered)


async def find_unsettled(bus: Bus, hold: Hold | None) -> list[Unsettled]:
    """All turns of the backup without an outcome, by their id. Without a hold: all turns that have none.

    Raises:
        Unavailable: the broker does not answer.
    """
    queued = [record async for record in read(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter())]
    turns = fold(it for it in queued if hold is None or it.seq <= hold.queue_end)
    turns |= {turn.turn_id: turn for turn in await _only_in_log(bus) if turn.turn_id not in turns}
    await complete(bus, turns)
    left = [turn for turn in turns.values() if turn.outcome is None and _is_of(turn, hold)]
    await _read_more(bus, left)
    began = await _log_begins(bus)
    found = [Unsettled(turn, _is_before(turn, began)) for turn in left]
    return sorted(found, key=lambda each: each.turn.turn_id)


async def _only_in_log(bus: Bus) -> Iterable[TurnHistory]:
    """Turns that were claimed and have no outcome. Their requests may have come after the queue was saved."""
    claims = await count_by_subject(bus, TURN_LOG.name, TURN_CLAIM.template.filter())
    over = {_names(subject) for subject in await count_by_subject(bus, TURN_LOG.name, TURN_OUTCOME.template.filter())}
    return [TurnHistory(*names) for names in map(_names, claims) if names not in over]


def _names(subject: str) -> tuple[str, str, str]:
    team, agent, turn = subject.split(".")[4:7]
    return team, agent, turn


def _is_of(turn: TurnHistory, hold: Hold | None) -> bool:
    """Whether the turn is of the backup. A turn that is only in the log was claimed before the restore."""
    if hold is None or turn.position:
        return True
    claims = [attempt.claim.at for attempt in turn.attempts.values()]
    claims += [turn.cancel.at] if turn.cancel is not None else []
    return bool(claims) and min(claims) < hold.restored_at


async def _read_more(bus: Bus, turns: Iterable[TurnHistory]) -> None:
    """Read the attempts of turns that were claimed, with their events, and what was decided before."""
    for turn in turns:
        for contract in (TURN_CLAIM, TURN_EVENT, TURN_DECIDED) if turn.attempts else (TURN_DECIDED,):
            async for record in read(bus, TURN_LOG.name, turn.ref.on(contract.template)):
                turn.take(record)


async def _log_begins(bus: Bus) -> datetime | None:
    """When the oldest message in the log was stored, if older ones have expired."""
    log = await stream_state(bus, TURN_LOG.name)
    if log is None or int(log.state["first_seq"]) <= 1:
        return None
    return datetime.fromisoformat(log.state["first_ts"])


def _is_before(turn: TurnHistory, began: datetime | None) -> bool:
    return began is not None and turn.requested_at is not None and turn.requested_at < began
