"""What a function gets besides its arguments, and the exception that answers with a JSON-RPC error."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

from pallas_contracts.agents import JsonObject
from pallas_contracts.turns import LOG_LEVELS, ClientContext, LogMessage, Principal, Progress
from pallas_hosting.functions.durable import DurableSteps
from pallas_turns.events import Emitter
from pallas_turns.runtime import PEER, Turn


class ProtocolFault(Exception):
    """Answer the caller with a JSON-RPC error instead of a result.

    `code` is the JSON-RPC error code, `data` goes with it.
    """

    def __init__(self, code: int, message: str, data: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@dataclass(frozen=True, slots=True)
class CallContext:
    """One call of a tool."""

    turn: Turn
    emit: Emitter
    steps: DurableSteps

    @property
    def client(self) -> ClientContext:
        """What the caller's client declared: protocol revision and capabilities."""
        return self.turn.client

    @property
    def input_responses(self) -> JsonObject | None:
        """The caller's answers to the `InputRequired` of its previous call; None on a first call."""
        return self.turn.input_responses

    @property
    def request_state(self) -> str | None:
        """The `request_state` of that `InputRequired`, as it came back."""
        return self.turn.request_state

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the caller; values must increase."""
        self.emit.emit(Progress(progress=progress, total=total, message=message))

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send the caller an MCP log message; dropped when it asked for a higher level only."""
        wanted = self.client.log_level
        if wanted in LOG_LEVELS and level in LOG_LEVELS and LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
            return
        self.emit.emit(LogMessage(level=level, data=data, logger=logger))

    def step[*Given](
        self,
        name: str,
        function: Callable[[*Given], Awaitable[Any]],
        *arguments: *Given,
        retry: Literal["unsafe", "safe"] | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Run a function once in this turn. Its result is JSON; a later attempt gets it without running the function.

        `retry`: whether it may run again when a worker was lost in the middle of it; by default as the agent says.
        `name` is in the log: no content.

        Raises:
            StepFailed: the function raised an exception, or its result is no JSON; also in later attempts.
            Superseded: another attempt has taken over; do nothing.
        """
        return self.steps.run(self.steps.take(), name, partial(function, *arguments), retry=retry)

    def call_tool(self, server: str, tool: str, arguments: JsonObject) -> Coroutine[Any, Any, JsonObject]:
        """Call a tool of one of the agent's servers, as a step. Returns the MCP result, also if it is an error.

        Raises:
            StepFailed: there is no result.
            Superseded: another attempt has taken over; do nothing.
        """
        return self.steps.call_tool(self.steps.take(), server, tool, arguments)

    def call_agent(self, name: str, message: str) -> Coroutine[Any, Any, str]:
        """Ask an agent of `depends_on`, as a step. A later attempt goes on within it.

        Raises:
            StepFailed: it has no answer; `kind` is the code of the failure.
            Superseded: another attempt has taken over; do nothing.
        """
        return self.steps.call_agent(self.steps.take(), name, message)

    def now(self) -> datetime:
        """The time in UTC; the same in later attempts."""
        return self.steps.now()

    def random(self) -> float:
        """A number from 0 up to 1; the same in later attempts."""
        return self.steps.random()

    async def side_effect(self, name: str) -> None:
        """Record that something begins that must not happen twice. If the worker is lost after this, the turn fails.

        Raises:
            Superseded: another attempt has taken over; do nothing.
        """
        await self.steps.side_effect(name)


@dataclass(frozen=True, slots=True)
class ReadContext:
    """One read of a prompt, resource or completion. `params` are the MCP params as received."""

    team: str
    agent: str
    params: JsonObject
    principal: Principal = PEER
