"""What the worker wants of an agent runtime, and what it gives it. The one seam between a turn and how it is executed.

A runtime knows nothing of NATS: it is handed a turn and something to say events to, and returns how the turn ended.
Cancellation is ordinary task cancellation: a runtime lets `CancelledError` pass, after its clean-up.
"""

from dataclasses import dataclass
from typing import Protocol

from pallas_contracts.agents import AgentDefinition, AgentRead, JsonObject
from pallas_contracts.turns import ClientContext, InputRequired, KnownEvent, Result, ToolStarted


@dataclass(frozen=True, slots=True)
class Turn:
    """One attempt at one call. `remaining` is how many seconds the turn may still take.

    `model` is the model (`PROVIDER.NAME`) to execute it with instead of the agent's own.
    """

    turn_id: str
    team: str
    agent: str
    tool: str
    arguments: JsonObject
    attempt: int
    remaining: float
    client: ClientContext
    correlation: str | None = None
    input_responses: JsonObject | None = None
    request_state: str | None = None
    model: str | None = None


class Emitter(Protocol):
    """Where a runtime says what happens. Events are numbered and timed here; leave `seq` and `at` alone."""

    def emit(self, event: KnownEvent) -> None:
        """Say it and go on at once. Never fails."""
        ...

    async def tool_starting(self, event: ToolStarted) -> None:
        """Say that a tool is about to be called, and wait until the log has it. Call the tool only after this returns.

        Raises:
            Superseded: this attempt has been superseded or cancelled; the tool must not be called.
        """
        ...


@dataclass(frozen=True, slots=True)
class Completed:
    """The turn has an answer (which may itself be a tool error of the agent's own, `is_error`)."""

    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn ended without an answer. `code` is one of `TURN_ERRORS`; the message is for the caller.

    `protocol_code` makes the gateway answer a JSON-RPC error instead of a tool error.
    """

    code: str
    message: str
    retryable: bool = False
    protocol_code: int | None = None
    data: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class NeedsInput:
    """The tool needs more from its caller, who calls again with it."""

    ask: InputRequired


type Outcome = Completed | Failed | NeedsInput


class AgentRuntime(Protocol):
    """Executes turns of one agent; shared by all its turns, so it holds nothing of any of them."""

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt.

        Errors of the agent's world (model, tools, limits) are returned as `Failed`; an exception is a bug and ends the
        turn with the code `internal`.
        """
        ...

    async def read(self, question: AgentRead) -> JsonObject:
        """Answer a prompt, resource or completion request with the MCP result.

        Raises:
            NotFound: there is no such prompt or resource.
        """
        ...


@dataclass(frozen=True, slots=True)
class HostedAgent:
    """An agent as a worker hosts it."""

    definition: AgentDefinition
    runtime: AgentRuntime

    @property
    def key(self) -> str:
        """`{team}.{agent}`."""
        return f"{self.definition.team}.{self.definition.agent}"
