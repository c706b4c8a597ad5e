"""Writes the log of one attempt at a turn: numbered events, content, and the outcome.

Tool starts, the last content and the outcome are fenced: they name the position of the attempt's claim, and the broker
refuses them once there is a newer claim. So a superseded attempt can start no tool and cannot end the turn. Other
events are not fenced and not waited for; readers drop those of a superseded attempt. Events that are emitted within
`MOMENT` seconds are sent in one message.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from pallas_bus.connection import Bus
from pallas_bus.errors import Stored, retry_while_unavailable
from pallas_bus.headers import EXPECTED, EXPECTED_SUBJECT, time_to_live, trace_headers
from pallas_bus.reads import read
from pallas_contracts.catalog import KEPT_REQUEST, TURN_CLAIM, TURN_CONTENT, TURN_EVENT, TURN_LOG, TURN_OUTCOME
from pallas_contracts.errors import Conflict, PallasError, Rejected, Superseded, Unavailable
from pallas_contracts.turns import (
    TURN_STATUSES,
    Answered,
    AnyEvent,
    HandedBack,
    KnownEvent,
    LogEvent,
    LogMessage,
    Progress,
    Result,
    TextDelta,
    ToolProgress,
    ToolStarted,
    TurnEvents,
    TurnOutcome,
    TurnRequested,
    TurnStatus,
)
from pallas_turns.claims import TurnRef, stored_outcome
from pallas_turns.content import HEADERS, heaviest, offload_entry, offload_result
from pallas_turns.events import Batch, batches

log = logging.getLogger(__name__)

CONTENT_SECONDS = 900.0

LEAST_CONTENT_TTL = 10.0
"""Seconds for which content is kept at least: its caller still gets it when a connection breaks at the turn's end."""

MOMENT = 0.003
"""Seconds for which an event waits for others, to be sent in one message with them."""

MOST_STORED = 64 * 1024 * 1024
"""Bytes that an attempt may store before its answer: above, no progress is stored, and no answers of its calls."""

_TOO_MUCH = "This turn has stored too much: its further progress is left out."
_REPORTS = (ToolProgress, Progress, LogMessage, TextDelta)

_CONTRACT = {True: TURN_CONTENT, False: TURN_EVENT}
"""Of a batch, by whether it is content."""

_CONCLUDE_TRIES = 5
_RETRY_PAUSE = 0.2
_SLACK = 60.0
"""Seconds by which the time to live of early content is longer than the time until it is removed."""

type Keeping = Mapping[TurnStatus, float]
"""For how many seconds content is wanted after the end of a turn, by how it ended. 0: only until it is delivered."""

KEPT: Keeping = dict.fromkeys(TURN_STATUSES, CONTENT_SECONDS)
"""Of an agent that says nothing else."""


@dataclass
class TurnWriter:
    """Writes for one attempt. `fence` is the position of its claim in the log.

    Content is kept after the turn's end for as long as `keep` says. Early content, written before the end, has a time
    to live that covers the rest of `turn_timeout` as well, however the turn ends. `early_content` says that there is
    some, of this attempt or an earlier one: the outcome then says when it is removed. `kept` is the request as it is
    kept for a replay.

    Most events are sent without waiting for the broker. Some may be lost, when the connection breaks or a send fails.
    Before the outcome, the writer then reads the log and sends again what it does not have. `_sent` holds the events
    that are not known to be stored. So the log of a turn that ended has all events.
    """

    bus: Bus
    ref: TurnRef
    attempt: int
    fence: int
    keep: Keeping = field(default_factory=lambda: KEPT)
    turn_timeout: float = 0.0
    early_content: bool = False
    kept: TurnRequested | None = None
    _seq: int = 0
    _events: list[AnyEvent] = field(default_factory=list["AnyEvent"])
    _contents: list[AnyEvent] = field(default_factory=list["AnyEvent"])
    _sent: list[list[AnyEvent]] = field(default_factory=list["list[AnyEvent]"])
    _unsure: bool = False
    _stored_bytes: int = 0
    _told: bool = False
    _timer: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._breaks = self.bus.breaks
        self._until = time.monotonic() + self.turn_timeout
        self._longest_ttl = max(LEAST_CONTENT_TTL, *self.keep.values())
        # With these the broker refuses a message once there is a newer claim.
        self._fenced = {EXPECTED: str(self.fence), EXPECTED_SUBJECT: self.ref.on(TURN_CLAIM.template)}

    @property
    def last_event(self) -> int:
        """The number of the last event that was emitted."""
        return self._seq

    def emit(self, event: KnownEvent) -> None:
        """Number the event and publish it, with others that are emitted within `MOMENT` seconds. Never fails.

        Progress and texts are left out once the attempt has stored `MOST_STORED` bytes. A log message says so once.
        """
        if isinstance(event, _REPORTS) and self._stored_bytes > MOST_STORED:
            if self._told:
                return
            self._told, event = True, LogMessage(level="warning", data=_TOO_MUCH)
            log.warning("a turn has stored too much", extra=self.ref.facts | {"bytes": self._stored_bytes})
        self._seq += 1
        numbered = event.model_copy(update={"seq": self._seq, "at": time.time_ns() // 1_000_000})
        (self._events if isinstance(event, LogEvent) else self._contents).append(numbered)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOMENT, self._flush_in_background)

    async def tool_starting(self, event: ToolStarted) -> None:
        """Publish the event and wait until it is stored; retries while the broker is unavailable.

        Raises:
            Superseded: there is a newer attempt, or the turn was cancelled.
        """
        await self._store(event, "store the start of a tool")

    async def answered(self, event: Answered) -> bool:
        """Publish what a call answered, for later attempts, without waiting until it is stored.

        An answer that is too big for a message is offloaded first; this retries while the broker is unavailable. If it
        is too big for that, too, or the attempt has stored too much, the entry is published without it, and this
        returns False.
        """
        if self._stored_bytes > MOST_STORED:
            event = event.model_copy(update={"answer": None})
        # A message escapes the JSON text, which may double it.
        if event.answer is not None and len(event.answer.encode()) > heaviest(self.bus) // 2:
            put = partial(offload_entry, self.bus, self.ref, self.attempt, event, ttl=self._early_ttl)
            try:
                event = await self._retry(put, "offload an answer", deadline=None)
                self._stored_bytes += event.stowed.size if event.stowed is not None else 0
            except Rejected as error:
                log.warning("an answer cannot be kept for a later attempt", extra={"reason": error.message})
                event = event.model_copy(update={"answer": None})
        self.emit(event)
        return event.answer is not None or event.stowed is not None

    async def hand_back(self) -> None:
        """Store that this worker gives the turn back, behind all other events.

        Raises:
            Superseded: there is a newer attempt, or the turn was cancelled.
        """
        await self._store(HandedBack(), "hand the turn back")

    async def _store(self, event: KnownEvent, what: str) -> None:
        """Publish the event, fenced and behind all others, and wait until it is stored.

        The connection keeps the order. So what was sent before is stored, too, unless the connection broke: then what
        is missing is sent again. A later attempt finds all that happened before this event.
        """
        self.emit(event)
        last = self._seq
        *before, ends = self._load()
        try:
            for batch in before:
                await self._send(batch)
            await self._put_last(ends, what)
            while self._lost:
                await self._retry(self._send_again, "send events again", deadline=None)
        except BaseException:
            self._unsure = True
            raise
        self._sent = [events for events in self._sent if events[0].seq > last]

    async def _put_last(self, ends: Batch, what: str) -> None:
        async def put() -> None:
            try:
                await self._put(ends)
            except Unavailable:
                self._unsure = True
                raise

        await self._retry(put, what, deadline=None)

    async def _retry[T](self, put: Callable[[], Awaitable[T]], what: str, *, deadline: float | None) -> T:
        """Call `put` as `retry_while_unavailable` does; a `Conflict` of its fence becomes `Superseded`."""
        facts = {"turn": self.ref.turn_id}
        try:
            return await retry_while_unavailable(put, what, deadline=deadline, pause=_RETRY_PAUSE, facts=facts)
        except Conflict as error:
            raise Superseded(f"attempt {self.attempt} does not have the turn any more") from error

    async def offload(self, result: Result) -> Result:
        """The result as it is sent: offloaded if it is too big for a message. Raises as `offload_result` does."""
        light = await offload_result(self.bus, self.ref, self.attempt, result, ttl=self._longest_ttl + _SLACK)
        self.early_content |= light.stowed is not None
        return light

    async def conclude(self, outcome: TurnOutcome) -> bool:
        """Publish the events that are left, then the outcome. Returns False if the turn had an outcome already.

        The last content (the result) and the outcome are sent in this order, and both are acknowledged. They have the
        same fence, so the broker cannot store the outcome and refuse the result. A cancelled turn has no result: its
        unpublished events are dropped.

        Raises:
            Superseded: there is a newer attempt, or the turn was cancelled; this attempt must not end it like this.
            Unavailable: the broker did not acknowledge, though it was retried; the call may be repeated.
            Rejected: the answer is larger than the broker accepts (`too_large`). It was not published; its number is
                free again.
        """
        if self.early_content:
            due = outcome.ended_at + timedelta(seconds=self._ttl(outcome.status))
            outcome = outcome.model_copy(update={"content_until": due})
        deadline = _CONCLUDE_TRIES * self.bus.timeout
        stored = await self._retry(partial(self._put_end, outcome), "end the turn", deadline=deadline)
        return not stored.duplicate or await self._is_ours(outcome)

    async def _put_end(self, outcome: TurnOutcome) -> Stored:
        """Store the events that are left and the outcome. If that fails, the events are kept for the next attempt."""
        if self._lost:
            self._stop_timer()
            await self._send_again()
        contents, events = self._take()
        if outcome.status == "cancelled":
            contents, events = [], []
        for batch in self._loaded(self._packed(events)):
            await self._send(batch)
        ends = self._last_batches(contents)
        try:
            await self._send_kept(outcome.status)
            return await self._put_in_order(ends, outcome)
        except Unavailable:
            self._contents[:0] = contents
            self._unsure = True
            raise

    async def _put_in_order(self, ends: list[Batch], outcome: TurnOutcome) -> Stored:
        """Store the last content, then the outcome: in one write, unless the stream takes them one by one."""
        ttl = self._ttl(outcome.status)
        if self.bus.one_by_one:
            for batch in ends:
                await self._put(batch, ttl)
            return await self._put_outcome(outcome)
        loop = asyncio.get_running_loop()
        puts = [self._put(batch, ttl) for batch in ends]
        # Each begins at once: all leave in one write.
        tasks = [asyncio.Task(put, loop=loop, eager_start=True) for put in (*puts, self._put_outcome(outcome))]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        assert isinstance(results[-1], Stored)
        return results[-1]

    def _last_batches(self, contents: list[AnyEvent]) -> list[Batch]:
        """The last content as messages. The number of an answer that is too large is used again."""
        try:
            return self._packed(contents)
        except Rejected:
            self._contents[:0] = contents[:-1]
            self._seq -= 1
            raise

    async def _put_outcome(self, outcome: TurnOutcome) -> Stored:
        if self._lost:
            raise Unavailable("the connection broke while the turn's last events were being sent")
        headers = self._fenced | {"Nats-Msg-Id": f"{TURN_OUTCOME.name}:{self.ref.turn_id}"}
        subject = self.ref.on(TURN_OUTCOME.template)
        return await self.bus.put(subject, outcome.model_dump_json().encode(), trace_headers(headers))

    async def _send_kept(self, status: TurnStatus) -> None:
        """Send the kept request. It is sent before the outcome, so the outcome's acknowledgement covers it."""
        if self.kept is None or not self.keep[status]:
            return
        named = {"Nats-Msg-Id": f"{KEPT_REQUEST.name}:{self.ref.turn_id}:{self.attempt}"}
        headers = trace_headers(named | time_to_live(self._ttl(status)))
        with suppress(Rejected):  # the turn must not fail because a copy cannot be kept
            await self.bus.send(self.ref.on(KEPT_REQUEST.template), self.kept.model_dump_json().encode(), headers)

    @property
    def _lost(self) -> bool:
        """Whether events that were sent may be lost. A connection is gone a moment before its break is counted."""
        return self._unsure or self.bus.breaks != self._breaks or not self.bus.client.is_connected

    async def _send_again(self) -> None:
        """Store the events that were sent and are not in the log."""
        breaks = self.bus.breaks
        stored = await self._stored()
        for events in list(self._sent):
            if missing := [event for event in events if event.seq not in stored]:
                log.info("events sent again", extra={"turn": self.ref.turn_id, "count": len(missing)})
                for batch in self._packed(missing):
                    await self._put(batch)
        self._breaks, self._unsure = breaks, False

    async def _stored(self) -> set[int]:
        """The numbers of this attempt's events that the log has."""
        found: set[int] = set()
        for contract in (TURN_EVENT, TURN_CONTENT):
            subject = self.ref.on(contract.template)
            async for record in read(self.bus, TURN_LOG.name, subject, timeout=self.bus.timeout):
                batch = TurnEvents.model_validate_json(record.data)
                if batch.attempt == self.attempt:
                    found.update(event.seq for event in batch.events)
        return found

    async def _is_ours(self, outcome: TurnOutcome) -> bool:
        """Whether the stored outcome is the one that was written here (its acknowledgement was lost)."""
        stored = await stored_outcome(self.bus, self.ref)
        return stored is not None and (stored.attempt, stored.ended_at) == (outcome.attempt, outcome.ended_at)

    def _flush_in_background(self) -> None:
        self.bus.spawn(self._flush())

    async def _flush(self) -> None:
        for batch in self._load():
            await self._send(batch)

    def _stop_timer(self) -> None:
        """Do not publish waiting events for now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take(self) -> tuple[list[AnyEvent], list[AnyEvent]]:
        """Remove and return the content and the events that wait to be published."""
        self._stop_timer()
        contents, self._contents = self._contents, []
        events, self._events = self._events, []
        return contents, events

    def _load(self) -> Sequence[Batch]:
        """Remove and return everything that waits to be published: content first, then events."""
        contents, events = self._take()
        return self._loaded([*self._packed(contents), *self._packed(events)])

    def _loaded(self, some: Sequence[Batch]) -> Sequence[Batch]:
        """Return the batches, recorded as sent: if sending them fails, they are sent again before the outcome."""
        for batch in some:
            self._sent.append(batch.events)
            self._stored_bytes += len(batch.payload)
            self.early_content |= batch.is_content
        return some

    async def _send(self, batch: Batch) -> None:
        try:
            await self.bus.send(*self._message(batch))
        except PallasError as error:
            self._unsure = True
            log.warning("events could not be published", extra={"turn": self.ref.turn_id, "reason": error.message})

    async def _put(self, batch: Batch, content_ttl: float | None = None) -> None:
        subject, payload, headers = self._message(batch, content_ttl)
        # The broker stores a message once, also when it is sent again without an acknowledgement.
        kind, numbers = _CONTRACT[batch.is_content].name, f"{batch.events[0].seq}-{batch.events[-1].seq}"
        named = {"Nats-Msg-Id": f"{kind}:{self.ref.turn_id}:{self.attempt}:{numbers}"}
        await self.bus.put(subject, payload, headers | self._fenced | named)

    def _message(self, batch: Batch, content_ttl: float | None = None) -> tuple[str, bytes, dict[str, str]]:
        """Subject, payload and headers of a message of events. `content_ttl` None: the turn has not ended."""
        headers = dict[str, str]()
        if batch.is_content:
            headers = time_to_live(self._early_ttl if content_ttl is None else content_ttl)
        return self.ref.on(_CONTRACT[batch.is_content].template), batch.payload, trace_headers(headers)

    def _ttl(self, status: TurnStatus) -> float:
        """Seconds for which content is kept after the turn's end, if it ends so."""
        return max(self.keep[status], LEAST_CONTENT_TTL)

    @property
    def _early_ttl(self) -> float:
        """Seconds for which content is kept that is written now, before the turn's end."""
        return max(0.0, self._until - time.monotonic()) + self._longest_ttl + _SLACK

    def _packed(self, events: list[AnyEvent]) -> list[Batch]:
        return batches(events, self._written, self.bus.client.max_payload - HEADERS) if events else []

    def _written(self, events: list[AnyEvent]) -> bytes:
        batch = TurnEvents(
            turn_id=self.ref.turn_id,
            team=self.ref.team,
            agent=self.ref.agent,
            attempt=self.attempt,
            events=tuple(events),
        )
        return batch.model_dump_json().encode()
