"""The log of a turn as a worker writes it: one claim, numbered events, one outcome.

What matters is fenced to the claim: a superseded attempt can start no tool and end no turn, the broker refuses it.
Events that only report are not fenced, so that none waits for another; readers drop those of an older attempt. Events
emitted in the same moment travel together.
"""

import asyncio
import logging
import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from pallas_bus.claim_checks import stow_result
from pallas_bus.connection import Bus
from pallas_bus.direct import read
from pallas_bus.replies import Stored
from pallas_bus.traces import trace_headers
from pallas_bus.turn_claims import EXPECTED, EXPECTED_SUBJECT, Address, stored_outcome
from pallas_contracts.catalog import KEPT_REQUEST, TURN_CLAIM, TURN_CONTENT, TURN_EVENT, TURN_LOG, TURN_OUTCOME
from pallas_contracts.errors import Conflict, PallasError, Rejected, Superseded, Unavailable
from pallas_contracts.turns import (
    CONTENT_TYPES,
    AnyEvent,
    Result,
    ToolStarted,
    TurnEvents,
    TurnOutcome,
    TurnRequested,
)

log = logging.getLogger(__name__)

CONTENT_TTL = 900.0
DELIVERY = 10.0
"""Seconds for which content is kept at least, so that its caller gets it though a connection breaks at the end."""
MOMENT = 0.003
"""Seconds for which an event waits for others to travel with; nobody sees them, and each message costs everybody."""
_CONFIRM_TRIES = 5
_RETRY = 0.2
_SLACK = 60.0
"""Seconds by which what bounds content outlives the moment at which it is removed."""


@dataclass
class TurnWriter:
    """What one attempt says. `fence` is the position of its claim, `content_ttl` the seconds its content is kept.

    Those count from the turn's end. What is said before it has a time to live that covers the rest of `turn_timeout`
    too; `early_content` says that there is such content, of this attempt or an earlier one, and the outcome then says
    when it has to go. `kept` is what is kept of the request for the same time, so that the turn can be replayed.

    Most events are sent without waiting for the broker. When the connection has broken since, the writer reads what the
    log has and sends the rest again before the outcome, so a turn that ended has all its events.
    """

    bus: Bus
    address: Address
    attempt: int
    fence: int
    content_ttl: float = CONTENT_TTL
    turn_timeout: float = 0.0
    early_content: bool = False
    kept: TurnRequested | None = None
    _seq: int = 0
    _events: list[AnyEvent] = field(default_factory=list["AnyEvent"])
    _contents: list[AnyEvent] = field(default_factory=list["AnyEvent"])
    _sent: list[list[AnyEvent]] = field(default_factory=list["list[AnyEvent]"])
    _timer: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._breaks = self.bus.breaks
        self._until = time.monotonic() + self.turn_timeout

    @property
    def last_event(self) -> int:
        """The number of the last event that was emitted."""
        return self._seq

    def emit(self, event: AnyEvent) -> None:
        """Number the event and publish it with whatever else is emitted in this moment. Never fails."""
        self._add(event)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOMENT, self._flush_in_background)

    async def tool_starting(self, event: ToolStarted) -> None:
        """Publish the event and wait until it is stored, however long the broker is away.

        Raises:
            Superseded: a newer attempt has the turn, or it was cancelled.
        """
        self._add(event)
        contents, events = self._take()
        await self._send(contents)
        while True:
            try:
                await self._put(events)
            except Conflict as error:
                raise self._superseded() from error
            except Unavailable as error:
                log.warning("a tool waits for the log", extra={"turn": self.address.turn_id, "reason": error.message})
                await asyncio.sleep(_RETRY)
            else:
                break
        if self.bus.breaks == self._breaks:
            self._sent.clear()  # what was sent before a message that is stored is stored too

    async def stow(self, result: Result) -> Result:
        """The result as it travels; raises as `stow_result` does."""
        light = await stow_result(self.bus, self.address, self.attempt, result, ttl=self.content_ttl + _SLACK)
        self.early_content |= light.stowed is not None
        return light

    async def conclude(self, outcome: TurnOutcome) -> bool:
        """Publish what is left, then the outcome. Returns False when the turn had an outcome already.

        The last content (the result) and the outcome are sent in this order and both confirmed; they have the same
        fence, so the broker cannot take the outcome and refuse the result. A cancelled turn has no result: what is left
        of it is dropped.

        Raises:
            Superseded: a newer attempt has the turn, or it was cancelled; this one must not end it like this.
            Unavailable: the broker could not be reached for long; the call may be repeated.
            Rejected: what is left is larger than the broker takes (`too_large`), and has been dropped.
        """
        if self.early_content:
            due = outcome.ended_at + timedelta(seconds=self.content_ttl)
            outcome = outcome.model_copy(update={"content_until": due})
        for tried in range(1, _CONFIRM_TRIES + 1):
            try:
                stored = await self._put_end(outcome)
            except Conflict as error:
                raise self._superseded() from error
            except Unavailable:
                if tried == _CONFIRM_TRIES:
                    raise
            else:
                return not stored.duplicate or await self._is_ours(outcome)
        raise AssertionError("unreachable")

    async def _put_end(self, outcome: TurnOutcome) -> Stored:
        """Store what is left and the outcome; the content is kept for the next try when that fails."""
        contents, events = self._take() if outcome.status != "cancelled" else ([], [])
        if contents and len(self._message(contents)[1]) > self.bus.max_payload:
            raise Rejected("the turn's last content is larger than the broker takes", code="too_large")
        try:
            if self.bus.breaks != self._breaks:
                await self._send_again()
            await self._send(events)
            await self._send_kept()
            last = self._put(contents, self.content_ttl)
            results = await asyncio.gather(last, self._put_outcome(outcome), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        except Unavailable:
            self._contents[:0] = contents
            raise
        assert isinstance(results[1], Stored)
        return results[1]

    async def _put_outcome(self, outcome: TurnOutcome) -> Stored:
        headers = self._fenced() | {"Nats-Msg-Id": f"{TURN_OUTCOME.name}:{self.address.turn_id}"}
        subject = self.address.on(TURN_OUTCOME.template)
        return await self.bus.put(subject, outcome.model_dump_json().encode(), trace_headers(headers))

    async def _send_kept(self) -> None:
        """Send what the turn was asked ahead of the outcome, whose confirmation is its own."""
        if self.kept is None:
            return
        named = {"Nats-Msg-Id": f"{KEPT_REQUEST.name}:{self.address.turn_id}:{self.attempt}"}
        headers = trace_headers(named | _lives(self.content_ttl))
        with suppress(Rejected):  # it is no larger than the request was, and a turn does not fail for want of a copy
            await self.bus.send(self.address.on(KEPT_REQUEST.template), self.kept.model_dump_json().encode(), headers)

    def _superseded(self) -> Superseded:
        return Superseded(f"attempt {self.attempt} does not have the turn any more")

    def _fenced(self) -> dict[str, str]:
        """The headers by which the broker refuses a message once the turn's claims have moved on."""
        return {EXPECTED: str(self.fence), EXPECTED_SUBJECT: self.address.on(TURN_CLAIM.template)}

    async def _send_again(self) -> None:
        """Store what was sent and got lost when the connection broke."""
        breaks = self.bus.breaks
        stored = await self._stored()
        for events in self._sent:
            if missing := [event for event in events if event.seq not in stored]:
                log.info("events sent again", extra={"turn": self.address.turn_id, "count": len(missing)})
                await self._put(missing)
        self._breaks = breaks

    async def _stored(self) -> set[int]:
        """The numbers of this attempt's events that the log has."""
        found: set[int] = set()
        for contract in (TURN_EVENT, TURN_CONTENT):
            async for record in read(self.bus, TURN_LOG.name, self.address.on(contract.template)):
                batch = TurnEvents.model_validate_json(record.data)
                if batch.attempt == self.attempt:
                    found.update(event.seq for event in batch.events)
        return found

    async def _is_ours(self, outcome: TurnOutcome) -> bool:
        """Whether the stored outcome is the one we wrote (its confirmation was lost)."""
        stored = await stored_outcome(self.bus, self.address)
        return stored is not None and (stored.attempt, stored.ended_at) == (outcome.attempt, outcome.ended_at)

    def _add(self, event: AnyEvent) -> None:
        self._seq += 1
        numbered = event.model_copy(update={"seq": self._seq, "at": time.time_ns() // 1_000_000})
        (self._contents if event.type in CONTENT_TYPES else self._events).append(numbered)

    def _flush_in_background(self) -> None:
        self.bus.spawn(self._flush())

    async def _flush(self) -> None:
        for events in self._take():
            await self._send(events)

    def _take(self) -> tuple[list[AnyEvent], list[AnyEvent]]:
        """Content and events that wait to be published; they do not wait any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        contents, self._contents = self._contents, []
        events, self._events = self._events, []
        return contents, events

    async def _send(self, events: list[AnyEvent]) -> None:
        if not events:
            return
        self._sent.append(events)
        self.early_content |= events[0].type in CONTENT_TYPES
        try:
            await self.bus.send(*self._message(events))
        except PallasError as error:
            log.warning("events were not published", extra={"turn": self.address.turn_id, "reason": error.message})

    async def _put(self, events: list[AnyEvent], content_ttl: float | None = None) -> None:
        if events:
            subject, payload, headers = self._message(events, content_ttl)
            await self.bus.put(subject, payload, headers | self._fenced() | {"Nats-Msg-Id": self._message_id(events)})

    def _message_id(self, events: list[AnyEvent]) -> str:
        """What keeps a message from being stored twice when its confirmation was lost."""
        kind = TURN_CONTENT.name if events[0].type in CONTENT_TYPES else TURN_EVENT.name
        return f"{kind}:{self.address.turn_id}:{self.attempt}:{events[0].seq}-{events[-1].seq}"

    def _message(self, events: list[AnyEvent], content_ttl: float | None = None) -> tuple[str, bytes, dict[str, str]]:
        """Subject, payload and headers of events that travel together. `content_ttl` None: the turn goes on."""
        headers: dict[str, str] = {}
        contract = TURN_EVENT
        if events[0].type in CONTENT_TYPES:
            contract = TURN_CONTENT
            rest = max(0.0, self._until - time.monotonic()) + self.content_ttl + _SLACK
            headers |= _lives(rest if content_ttl is None else content_ttl)
        batch = TurnEvents(
            turn_id=self.address.turn_id,
            team=self.address.team,
            agent=self.address.agent,
            attempt=self.attempt,
            events=tuple(events),
        )
        return self.address.on(contract.template), batch.model_dump_json().encode(), trace_headers(headers)


def _lives(seconds: float) -> dict[str, str]:
    """The header that gives a message a time to live; the broker counts whole seconds."""
    return {"Nats-TTL": f"{max(1, math.ceil(seconds))}s"}
