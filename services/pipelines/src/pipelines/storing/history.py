"""Which executions there were, from the log of turns: who ran what when, without any content.

The log has only a keyed hash of a caller's label (`X-Constellation-Agent`), as the conversation of its turns.
"""

import json
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.reads import Record, read, read_newest
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import (
    CONSTELLATION,
    KEPT_REQUEST,
    PIPELINES_TEAM,
    TURN_CLAIM,
    TURN_EVENT,
    TURN_LOG,
)
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.ids import is_token
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import (
    AnyEvent,
    Claimed,
    Principal,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnClaim,
    TurnEvents,
    TurnOutcome,
    TurnRequested,
    TurnStatus,
)
from pallas_turns.claims import TurnRef, find_waiting, stored_outcomes
from pipelines.storing.namespaces import Caller, user_of
from pipelines.storing.scopes import Scope

TOOLS = frozenset({"execute", "resume", "batch_execute"})
"""The tools of `pipelines/constellation` whose turns are executions."""

MOST_IN_PAGE = 100
MOST_CALLS = 10_000
"""Calls in the detail of an execution."""

_FIRST_WINDOW, _LARGEST_WINDOW = 10_000, 100_000
_MOST_WINDOWS = 50
_MOST_CLAIMS = 20_000
"""Windows of the log that are searched for one page, and about how many claims; the cursor says where to go on."""

_IDS = {"team": PIPELINES_TEAM, "agent": CONSTELLATION}


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution as the log has it; its id is that of its turn."""

    id: str
    tool: str
    principal: Principal
    status: Literal["running"] | TurnStatus
    requested_at: datetime
    started_at: datetime
    code: str | None = None
    ended_at: datetime | None = None
    attempts: int = 1

    @property
    def ref(self) -> TurnRef:
        """The turn."""
        return TurnRef(PIPELINES_TEAM, CONSTELLATION, self.id)

    @property
    def caller(self) -> str:
        """Who called, as `type:id`."""
        return self.principal.label

    def document(self) -> JsonObject:
        """The execution as JSON: times are ISO 8601, durations milliseconds."""
        ended: JsonObject = {}
        if self.ended_at is not None:
            duration = (self.ended_at - self.requested_at).total_seconds() * 1000
            ended = {"endedAt": self.ended_at.isoformat(), "durationMs": round(duration, 3)}
        return {
            "executionId": self.id,
            "tool": self.tool,
            "caller": self.caller,
            "status": self.status,
            **({"code": self.code} if self.code is not None else {}),
            "requestedAt": self.requested_at.isoformat(),
            "startedAt": self.started_at.isoformat(),
            **ended,
            "attempts": self.attempts,
        }


@dataclass(frozen=True, slots=True)
class CallMade:
    """A call of a module in an execution. `place` is that in the program, `number` counts its tries from 1."""

    place: str
    number: int
    server: str
    tool: str
    at: datetime
    status: Literal["started", "completed", "failed"] = "started"
    duration_ms: float | None = None
    code: str | None = None

    def document(self) -> JsonObject:
        """The call as JSON."""
        said = {"durationMs": self.duration_ms, "code": self.code}
        return {
            "place": self.place,
            "try": self.number,
            "server": self.server,
            "tool": self.tool,
            "status": self.status,
            "startedAt": self.at.isoformat(),
            **{name: value for name, value in said.items() if value is not None},
        }


@dataclass(frozen=True, slots=True)
class ExecutionPage:
    """Executions, the latest first. With a `cursor` there may be earlier ones, also behind an empty page."""

    executions: tuple[Execution, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class ExecutionDetail:
    """An execution, and the calls it made in the order in which they began, at most `MOST_CALLS`."""

    execution: Execution
    calls: tuple[CallMade, ...]


@dataclass(frozen=True)
class Executions:
    """The executions in the log. `key` hashes labels as those who make turns do."""

    bus: Bus
    key: LogKey = field(repr=False)

    async def page(
        self, caller: Caller, *, limit: int = 20, cursor: str | None = None, agent: str | None = None
    ) -> ExecutionPage:
        """The latest executions of a caller, or those behind a cursor; all for an administrator.

        With `agent`, a label, only those that were requested with it.

        Raises:
            Denied: the caller lacks the scope `read`.
            Rejected: the cursor is none of ours (`bad_cursor`).
            Unavailable: the broker does not answer.
        """
        caller.check(Scope.READ)
        limit = max(1, min(limit, MOST_IN_PAGE))
        wanted = self._wanted(caller, agent)
        state = (await self.bus.api(f"STREAM.INFO.{TURN_LOG.name}", {}))["state"]
        begin: int = state["first_seq"]
        end: int = state["last_seq"] + 1
        if cursor is not None:
            end = min(end, _position(cursor))
        found, size, looked = list[Execution](), _FIRST_WINDOW, 0
        for _ in range(_MOST_WINDOWS):
            if begin >= end or len(found) >= limit or looked >= _MOST_CLAIMS:
                break
            start, room = max(begin, end - size), limit - len(found)
            window, claims = await self._window(wanted, start, end, room)
            looked += claims
            found += await self._with_outcomes([execution for _, execution in reversed(window)])
            # A window with as many as there is room for may have earlier ones.
            end = window[0][0] if len(window) == room else start
            size = min(2 * size, _LARGEST_WINDOW)
        return ExecutionPage(tuple(found), f"{end:x}" if end > begin else None)

    async def execution(self, caller: Caller, execution_id: str) -> ExecutionDetail:
        """An execution of the caller with its calls.

        Raises:
            NotFound: there is none, or it is another caller's (`not_found`).
            Denied: the caller lacks the scope `read`.
            Unavailable: the broker does not answer.
        """
        caller.check(Scope.READ)
        unknown = NotFound(f"Execution {execution_id[:100]!r} not found", code="not_found")
        if not is_token(execution_id):
            raise unknown
        ref = TurnRef(PIPELINES_TEAM, CONSTELLATION, execution_id)
        wanted = self._wanted(caller, None)
        claims = [each async for each in read(self.bus, TURN_LOG.name, ref.on(TURN_CLAIM.template))]
        found = [each for each in map(wanted.execution, claims) if each is not None]
        if not found:
            raise unknown
        [execution] = await self._with_outcomes([replace(found[0], attempts=found[-1].attempts)])
        return ExecutionDetail(execution, await self._calls(ref))

    async def request(self, execution: Execution) -> TurnRequested | None:
        """What an execution was asked; None if that is not kept any more.

        Raises:
            Unavailable: the broker does not answer.
        """
        ref = execution.ref
        if execution.status == "running":
            waiting = await find_waiting(self.bus, ref, execution.principal)
            if waiting is not None:
                return waiting.request
        kept = await read_newest(self.bus, TURN_LOG.name, ref.on(KEPT_REQUEST.template))
        return TurnRequested.model_validate_json(kept.data) if kept is not None else None

    def _wanted(self, caller: Caller, agent: str | None) -> "_Wanted":
        who, label = caller.principal, agent
        if caller.scope >= Scope.ADMIN:
            owner = None
        elif who.type == "peer" and caller.label:  # its label says who it is, not its address
            owner, label = None, agent or caller.label
            if user_of(label) != user_of(caller.label):
                return _Wanted(owner=caller, conversation="")
        else:
            owner = caller
        kind = "peer" if owner is None and caller.scope < Scope.ADMIN else None
        return _Wanted(owner, self.key.conversation(label) if label is not None else None, kind)

    async def _window(
        self, wanted: "_Wanted", start: int, end: int, most: int
    ) -> tuple[list[tuple[int, Execution]], int]:
        """The last `most` executions whose first claim is between two positions, with these, in order.

        Also how many claims are there.
        """
        found, looked = deque[tuple[int, Execution]](maxlen=most), 0
        subject = TURN_CLAIM.template.filter(**_IDS)
        async with aclosing(read(self.bus, TURN_LOG.name, subject, after=start - 1)) as records:
            async for record in records:
                if record.seq >= end:
                    break
                looked += 1
                execution = wanted.execution(record)
                if execution is not None and (execution.attempts == 1 or await self._is_first(record)):
                    found.append((record.seq, execution))
        return list(found), looked

    async def _is_first(self, claim: Record) -> bool:
        async with aclosing(read(self.bus, TURN_LOG.name, claim.subject, batch=1)) as records:
            return (await anext(records)).seq == claim.seq

    async def _with_outcomes(self, executions: list[Execution]) -> list[Execution]:
        outcomes = await stored_outcomes(self.bus, [each.ref for each in executions])
        return [_ended(each, outcomes[each.id]) if each.id in outcomes else each for each in executions]

    async def _calls(self, ref: TurnRef) -> tuple[CallMade, ...]:
        calls = dict[str, CallMade]()
        async with aclosing(self._events(ref)) as events:
            async for event in events:
                _take(calls, event)
                if len(calls) >= MOST_CALLS:
                    break
        return tuple(calls.values())

    async def _events(self, ref: TurnRef) -> AsyncGenerator[AnyEvent]:
        async with aclosing(read(self.bus, TURN_LOG.name, ref.on(TURN_EVENT.template))) as records:
            async for record in records:
                for event in TurnEvents.model_validate_json(record.data).events:
                    yield event


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which executions are wanted; None stands for all. `kind` is the type of the principal."""

    owner: Caller | None
    conversation: str | None
    kind: str | None = None

    def _may_be(self, claim: bytes) -> bool:
        """Whether a claim contains what that of a wanted execution contains, so that most need not be parsed."""
        if self.conversation:
            return self.conversation.encode() in claim
        if self.owner is None:
            return True
        who = self.owner.principal
        ids = (json.dumps(text, ensure_ascii=False)[1:-1].encode() for text in (who.id, who.user) if text)
        return any(each in claim for each in ids)

    def execution(self, record: Record) -> Execution | None:
        """The execution of a claim, if it is wanted."""
        if not self._may_be(record.data):
            return None
        try:
            message = TurnClaim.model_validate_json(record.data)
        except ValidationError:
            return None
        claim = message.claim
        if not isinstance(claim, Claimed) or claim.principal is None or claim.tool not in TOOLS:
            return None
        if (
            (self.owner is not None and not self.owner.made(claim.principal))
            or self.kind not in (None, claim.principal.type)
            or self.conversation not in (None, claim.conversation)
        ):
            return None
        return Execution(
            id=message.turn_id,
            tool=claim.tool,
            principal=claim.principal,
            status="running",
            requested_at=claim.requested_at or claim.at,
            started_at=claim.at,
            attempts=claim.attempt,
        )


def _ended(execution: Execution, outcome: TurnOutcome) -> Execution:
    return replace(
        execution, status=outcome.status, code=outcome.code, ended_at=outcome.ended_at, attempts=outcome.attempt
    )


def _take(calls: dict[str, CallMade], event: AnyEvent) -> None:
    """Add an event to the calls, by their place and number. A later attempt may go on with a call of an earlier one."""
    match event:
        case ToolStarted(call=call) if call not in calls:
            place, _, number = call.rpartition(".")
            at = datetime.fromtimestamp(event.at / 1000, UTC)
            named = (place, int(number)) if place and number.isdecimal() else (call, 1)
            calls[call] = CallMade(*named, event.server, event.tool, at)
        case ToolCompleted(call=call) if call in calls:
            calls[call] = replace(calls[call], status="completed", duration_ms=event.duration_ms, code=None)
        case ToolFailed(call=call) if call in calls:
            calls[call] = replace(calls[call], status="failed", duration_ms=event.duration_ms, code=event.code)
        case _:
            pass


def _position(cursor: str) -> int:
    try:
        return int(cursor, 16)
    except ValueError:
        raise Rejected("The cursor is not one that this service has given out.", code="bad_cursor") from None
