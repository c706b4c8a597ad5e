"""The timeline of one turn: when each thing began, how long it took, and what contains it. Content is not shown."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any, Literal

from pallas_contracts.costs import Cost
from pallas_contracts.ids import child_id
from pallas_contracts.turns import (
    Answered,
    AnyEvent,
    Continued,
    Fault,
    HandedBack,
    InputRequired,
    ModelCalled,
    ModelFailed,
    Restarted,
    Result,
    Step,
    TextDelta,
    ToolCompleted,
    ToolFailed,
    ToolProgress,
    ToolStarted,
)
from pallas_turns.history.contents import claim_text, text_of, time_of, tokens_text
from pallas_turns.history.turns import AttemptHistory, TurnHistory

type Kind = Literal["queue", "attempt", "journal", "step", "model", "tool", "agent", "content", "cancel", "outcome"]


@dataclass
class Entry:
    """One line of a timeline. `took` is seconds; None if it has not ended, or has no duration.

    `within` is the entry that contains it. `span` is its name in a trace, and `note` a remark there. A call is
    `taken_over` if a later attempt went on with its answer. `name` is what is called, without the facts about it.
    `child` is the turn that an agent of the platform was called with.
    """

    at: datetime
    kind: Kind
    what: str
    took: float | None = None
    attempt: int = 0
    within: "Entry | None" = None
    span: str | None = None
    note: str = ""
    failed: bool = False
    taken_over: bool = False
    name: str = ""
    child: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Cost | None = None

    @property
    def depth(self) -> int:
        """The number of entries that contain it."""
        return 0 if self.within is None else self.within.depth + 1

    def as_json(self, began: datetime) -> dict[str, Any]:
        """The entry as plain values; `after` is seconds since the request."""
        after = (self.at - began).total_seconds()
        rest = {name: getattr(self, name) for name in ("kind", "attempt", "depth", "what", "taken_over")}
        return {"at": self.at.isoformat(), "after": after, "took": self.took, **rest}


def timeline(turn: TurnHistory) -> list[Entry]:
    """All entries, by time."""
    attempts = [turn.attempts[number] for number in sorted(turn.attempts)]
    entries = [*_queue(turn, attempts)]
    for number, (attempt, following) in enumerate(zip_longest(attempts, attempts[1:]), 1):
        taken = frozenset(call for later in attempts[number:] for call in _taken(later))
        end, lost = _end(turn, attempt, following), _lost(turn, attempt, following)
        entries += _Attempt(turn.turn_id, attempt, lost or end, taken, lost is not None).entries()
        if lost is not None and end is not None:
            took = (end - lost).total_seconds()
            entries.append(
                Entry(lost, "queue", f"the worker was lost, noticed after {took:.1f} s", took, attempt=number)
            )
        if (handed_back := attempt.handed_back) is not None:
            since = time_of(handed_back)
            taken_at = following.claim.at if following is not None else turn.outcome.ended_at if turn.outcome else None
            took = (taken_at - since).total_seconds() if taken_at is not None else None
            what = "waited for another worker" if taken_at is not None else "waits for another worker"
            entries.append(Entry(since, "queue", what, took))
    entries += [Entry(it.at, "journal", f"{it.by} decided after a restore: {it.decision}") for it in turn.decided]
    if turn.cancel is not None:
        entries.append(Entry(turn.cancel.at, "cancel", f"cancel: {turn.cancel.reason}"))
    # Events have times in milliseconds. Entries of the same millisecond keep their order.
    entries.sort(key=lambda entry: int(entry.at.timestamp() * 1000))
    if turn.outcome is not None:
        code = f" ({turn.outcome.code})" if turn.outcome.code not in (None, turn.outcome.status) else ""
        what, failed = f"{turn.outcome.status}{code}", turn.outcome.status == "failed"
        entries.append(Entry(turn.outcome.ended_at, "outcome", what, failed=failed))
    return entries


def beginning(turn: TurnHistory) -> datetime:
    """The time of the request, or else of the first known entry."""
    first = min((entry.at for entry in timeline(turn)), default=datetime.fromtimestamp(0, UTC))
    return turn.requested_at or first


def _queue(turn: TurnHistory, attempts: list[AttemptHistory]) -> Iterator[Entry]:
    if (asked := turn.requested_at) is None:
        return
    taken = attempts[0].claim.at if attempts else turn.outcome.ended_at if turn.outcome else None
    took = (taken - asked).total_seconds() if taken else None
    what = "waited in the queue" if taken else "waits in the queue"
    yield Entry(asked, "queue", what, took, span="wait_in_queue")


def _end(turn: TurnHistory, attempt: AttemptHistory, following: AttemptHistory | None) -> datetime | None:
    if (handed_back := attempt.handed_back) is not None:
        return time_of(handed_back)
    if following is not None:
        return following.claim.at
    return turn.outcome.ended_at if turn.outcome is not None else None


def _lost(turn: TurnHistory, attempt: AttemptHistory, following: AttemptHistory | None) -> datetime | None:
    """When the worker of an attempt was heard of last, if it was lost."""
    events = attempt.in_order()
    ended = any(isinstance(event, Result | InputRequired | Fault | HandedBack) for event in events)
    noticed = following is not None or (turn.outcome is not None and turn.outcome.code == "worker_lost")
    return max(map(time_of, events), default=attempt.claim.at) if noticed and not ended else None


def _taken(attempt: AttemptHistory) -> tuple[str, ...]:
    return next((event.taken for event in attempt.events.values() if isinstance(event, Continued)), ())


@dataclass
class _Attempt:
    """Nests the events of an attempt: calls in steps, a sub-agent in its call.

    If its worker was `lost`, `end` is when it was heard of last, which ends all that it did.
    """

    turn_id: str
    history: AttemptHistory
    end: datetime | None
    taken: frozenset[str]
    lost: bool = False
    made: list[Entry] = field(default_factory=list[Entry])
    _steps: dict[str, Entry] = field(default_factory=dict[str, Entry])
    _calls: dict[str, Entry] = field(default_factory=dict[str, Entry])
    _callers: dict[str, Entry] = field(default_factory=dict[str, Entry])
    _open: Counter[str] = field(default_factory=Counter[str])
    _calling: str = ""

    def __post_init__(self) -> None:
        text = claim_text(self.history.claim)
        self._whole = Entry(self.history.claim.at, "attempt", text, span="take_turn", note=text)

    def entries(self) -> list[Entry]:
        self._add(self._whole)
        if self.end is not None:
            self._whole.took = (self.end - self._whole.at).total_seconds()
        for event in self.history.in_order():
            self._take(event, time_of(event))
        for agent in list(self._steps):
            self._end_step(agent, self.end)
        if self.lost and self.end is not None:
            for entry in self.made:
                if entry is self._whole or (entry.kind in ("tool", "agent") and entry.took is None):
                    entry.took, entry.failed = (self.end - entry.at).total_seconds(), True
        return self.made

    def _take(self, event: AnyEvent, at: datetime) -> None:
        match event:
            case Step():
                self._end_step(event.agent, at)
                within, span = self._callers.get(event.agent, self._whole), f"invoke_agent {event.agent}"
                self._steps[event.agent] = self._add(Entry(at, "step", text_of(event), within=within, span=span))
                self._calling = event.agent
            case ModelCalled() | ModelFailed():
                self._model_called(event, at)
            case ToolStarted():
                within, kind = self._steps.get(self._calling, self._whole), "tool" if event.leaf else "agent"
                span = f"execute_tool {event.server}__{event.tool}" if event.leaf else f"execute_tool {event.tool}"
                what = name = f"{event.server}/{event.tool}"
                child = None
                if not event.leaf and "/" in event.server:  # an agent of the platform: a turn of its own
                    child = child_id(self.turn_id, event.call)
                    what += f" (turn {child})"
                call = self._add(Entry(at, kind, what, within=within, span=span, name=name, child=child))
                call.taken_over = event.call in self.taken
                self._calls[event.call] = call
                if not event.leaf:
                    self._callers[event.server] = call
                    self._open[event.server] += 1
            case ToolCompleted() | ToolFailed():
                self._end_call(event, at)
            case TextDelta() | ToolProgress() | Answered():
                pass
            case Continued() | Restarted() | HandedBack():
                self._add(Entry(at, "journal", text_of(event), within=self._whole))
                self._whole.note += f"; {text_of(event)}"
            case _:
                self._add(Entry(at, "content", text_of(event), within=self._whole))

    def _model_called(self, event: ModelCalled | ModelFailed, at: datetime) -> None:
        began, step = at - timedelta(milliseconds=event.duration_ms), self._steps.get(event.agent)
        failed = isinstance(event, ModelFailed)
        note = f"failed ({event.code})" if isinstance(event, ModelFailed) else f"({tokens_text(event)})"
        what, span = f"{event.model} {'' if failed else 'answered '}{note}", f"chat {event.model}"
        within = step or self._whole
        entry = Entry(began, "model", what, event.duration_ms / 1000, within=within, span=span, note=note)
        entry.at = max(began, within.at)
        entry.name, entry.failed = event.model, failed
        if isinstance(event, ModelCalled):
            entry.input_tokens, entry.output_tokens, entry.cost = event.input_tokens, event.output_tokens, event.cost
        entry.taken_over = event.call in self.taken
        self._add(entry)

    def _end_call(self, event: ToolCompleted | ToolFailed, at: datetime) -> None:
        call = self._calls.get(event.call)
        if call is None:
            call = self._add(Entry(at, "tool", f"{event.server}/{event.tool}", within=self._whole))
        call.took = event.duration_ms / 1000
        if call.kind == "agent":
            self._end_step(event.server, at)
            self._open[event.server] -= 1
            if not self._open[event.server]:
                self._callers.pop(event.server, None)
        if isinstance(event, ToolFailed):
            call.note, call.failed = f"failed ({event.code})", True
            call.what += f": {call.note}"

    def _end_step(self, agent: str, at: datetime | None) -> None:
        step = self._steps.pop(agent, None)
        if step is not None and at is not None:
            step.took = (at - step.at).total_seconds()

    def _add(self, entry: Entry) -> Entry:
        entry.attempt = self.history.claim.attempt
        self.made.append(entry)
        return entry


@dataclass(frozen=True, slots=True)
class Times:
    """Sums of durations in seconds. Parallel models and tools count each; `rest` is the time outside all of them."""

    total: float
    queued: float
    models: float
    model_calls: int
    tools: float
    tool_calls: int
    rest: float

    def __str__(self) -> str:
        models = f"{self.models:.3f} s in {_calls(self.model_calls, 'model')}"
        tools = f"{self.tools:.3f} s in {_calls(self.tool_calls, 'tool')}"
        return f"{self.total:.3f} s: {self.queued:.3f} s waiting, {models}, {tools}, {self.rest:.3f} s other"


def _calls(number: int, what: str) -> str:
    return f"{number} {what} call{'' if number == 1 else 's'}"


def times_of(entries: Iterable[Entry]) -> Times:
    """The sums of a timeline. A sub-agent counts by its own models and tools."""
    known = list(entries)
    spans = {
        kind: [entry for entry in known if entry.kind == kind and entry.took is not None]
        for kind in ("queue", "model", "tool")
    }
    ends = [entry.at + timedelta(seconds=entry.took or 0) for entry in known]
    total = (max(ends) - min(entry.at for entry in known)).total_seconds() if known else 0.0
    sums = {kind: sum(entry.took or 0 for entry in some) for kind, some in spans.items()}
    rest = max(0.0, total - _covered(entry for some in spans.values() for entry in some))
    models, tools = spans["model"], spans["tool"]
    return Times(total, sums["queue"], sums["model"], len(models), sums["tool"], len(tools), rest)


def _covered(entries: Iterable[Entry]) -> float:
    """The seconds that at least one of the entries covers."""
    seconds, until = 0.0, datetime.fromtimestamp(0, UTC)
    for entry in sorted(entries, key=lambda entry: entry.at):
        end = entry.at + timedelta(seconds=entry.took or 0)
        if end > until:
            seconds += (end - max(entry.at, until)).total_seconds()
            until = end
    return seconds
