"""Executions for callers over HTTP: each is a turn of `pipelines/constellation`, which any replica executes."""

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pallas_bus.reads import read
from pallas_contracts.agents import AgentDefinition, JsonObject
from pallas_contracts.catalog import CONSTELLATION, PIPELINES_TEAM, TURN_CLAIM, TURN_LOG
from pallas_contracts.errors import NotFound
from pallas_contracts.ids import is_token
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import (
    TURN_ERRORS,
    Claimed,
    ClientContext,
    Fault,
    Result,
    TurnClaim,
    TurnRequested,
    turn_error,
)
from pallas_runtime.http.bodies import disconnected, while_connected
from pallas_runtime.telemetry import of_turn
from pallas_turns.calls import Calls
from pallas_turns.claims import TurnRef, find_waiting
from pallas_turns.keys import call_once
from pallas_turns.model import Call, Observer, Refusal, TurnEnd
from pallas_turns.submit import make_request
from pipelines.http.answers import Refused, encoded, refusal
from pipelines.http.requests import EXECUTION_ID, Received
from pipelines.storing.namespaces import Caller

_CLIENT = ClientContext(protocol_version="constellation-http")


@dataclass(frozen=True, slots=True)
class Ended:
    """How an execution ended: its answer, or the code and the message of its failure."""

    execution_id: str
    answer: JsonObject | None
    code: str | None = None
    message: str = ""


type Told = Callable[[Ended], tuple[int, JsonObject]]
"""Makes the status and the body of an answer."""


@dataclass(frozen=True)
class Turns:
    """Makes turns, and finds those of a caller. A turn has the label of its caller as its correlation."""

    calls: Calls
    key: LogKey
    definition: AgentDefinition

    def execution(
        self, received: Received, tool: str, arguments: JsonObject, tell: Told, *, early: bool = True
    ) -> "Execution":
        """The answer of a turn that is made when the answer is sent. `early`: its headers are sent before its end."""
        found = self.definition.tool(tool)
        assert found is not None, tool
        caller = received.caller
        call = Call(tool=tool, client=_CLIENT, principal=caller.principal, key=received.marks.key)
        request = make_request(self.key, self.definition, found, arguments, call)
        if caller.label is not None:
            label = {"correlation": caller.label, "conversation": self.key.conversation(caller.label)}
            request = request.model_copy(update=label)
        follow = partial(call_once, self.calls, request, self.definition.limits)
        return Execution(request, follow, tell, received.marks.request_id, early=early)

    async def own(self, caller: Caller, execution_id: str) -> TurnRef:
        """An execution of a caller.

        Raises:
            NotFound: the caller has none of this id.
            Unavailable: the broker does not answer.
        """
        ref = TurnRef(PIPELINES_TEAM, CONSTELLATION, execution_id)
        if is_token(execution_id) and (
            await self._claimed_for(ref, caller)
            or await find_waiting(self.calls.bus, ref, caller.principal) is not None
            or await self._claimed_for(ref, caller)  # it left its queue between the two
        ):
            return ref
        raise NotFound(f"Execution '{execution_id[:100]}' not found")

    async def _claimed_for(self, ref: TurnRef, caller: Caller) -> bool:
        async with aclosing(read(self.calls.bus, TURN_LOG.name, ref.on(TURN_CLAIM.template), batch=1)) as records:
            async for record in records:
                claim = TurnClaim.model_validate_json(record.data).claim
                known = claim.principal if isinstance(claim, Claimed) else None
                return known is not None and caller.made(known)
        return False


class _Following(Observer):
    def __init__(self, on_followed: Callable[[], Awaitable[None]]) -> None:
        self._on_followed = on_followed

    async def on_followed(self) -> None:
        await self._on_followed()

    def caller_left(self) -> bool:
        return True

    def why_left(self) -> str:
        return "the caller closed the connection"


class Execution(Response):
    """The answer of an execution. Its caller gives it up by closing the connection, unless it sent a key.

    The header X-Constellation-Execution-ID is sent as soon as the turn is in its queue, so that others can follow it.
    """

    def __init__(
        self,
        request: TurnRequested,
        follow: Callable[[Observer], Awaitable[TurnEnd | Refusal]],
        tell: Told,
        request_id: str | None,
        *,
        early: bool,
    ) -> None:
        super().__init__(status_code=200)
        self._request = request
        self._follow = follow
        self._tell = tell
        self._request_id = request_id
        self._early = early
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make the turn, follow it to its end, and send its answer."""
        with of_turn(**TurnRef.of(self._request).facts, conversation=self._request.correlation):
            await while_connected(self._execute(scope, receive, send), partial(disconnected, receive))

    async def _execute(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def followed() -> None:
            if self._early:
                await self._start(send, 200)

        end = await self._follow(_Following(followed))
        if isinstance(end, Refusal) and not self._started:
            await refusal(_not_made(end), self._request_id)(scope, receive, send)
            return
        status, document = self._tell(_ended(self._request.turn_id, end))
        if not self._started:
            await self._start(send, status)
        await send({"type": "http.response.body", "body": encoded(document)})

    async def _start(self, send: Send, status: int) -> None:
        self._started = True
        named: Mapping[str, str] = {EXECUTION_ID: self._request.turn_id, "content-type": "application/json"}
        headers = [(name.lower().encode(), value.encode()) for name, value in named.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})


_TOO_MANY = {"busy": "QueueFull", "budget_exhausted": "BudgetExhausted"}
"""Refusals that are answered with 429, with their names."""


def _not_made(refused: Refusal) -> Refused:
    if (word := _TOO_MANY.get(refused.code)) is not None:
        seconds = max(1, math.ceil((refused.retry_after_ms or 0) / 1000))
        return Refused(429, word, refused.message, retry_after=seconds)
    if refused.code == "invalid_arguments":
        return Refused(400, "InvalidRequest", refused.message)
    if refused.code in ("key_reused", "cancelled"):
        return Refused(409, "Conflict", refused.message)
    return Refused(503, "Unavailable", refused.message, retry_after=1)


def _ended(execution_id: str, end: TurnEnd | Refusal) -> Ended:
    if isinstance(end, Refusal):
        return Ended(execution_id, None, end.code, end.message)
    match end.answer:
        case Result(structured={**found}, is_error=False):
            return Ended(execution_id, {**found})
        case Fault(message=message):
            return Ended(execution_id, None, end.outcome.code, message)
        case _:
            code = end.outcome.code or "content_expired"
            return Ended(execution_id, None, code, TURN_ERRORS[turn_error(code)])
