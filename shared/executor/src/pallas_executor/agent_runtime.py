"""The interface between an executor and an agent runtime.

A runtime knows nothing of NATS: it gets a turn and an emitter of events, and returns how the turn ended.
Cancellation is ordinary task cancellation: a runtime cleans up and lets `CancelledError` pass.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.agents import AgentDefinition, AgentRead, JsonObject
from pallas_contracts.costs import Allowance
from pallas_contracts.turns import (
    Answered,
    ClientContext,
    InputRequired,
    KnownEvent,
    Principal,
    Result,
    ToolStarted,
    TurnError,
)
from pallas_executor.boundary import Boundary
from pallas_executor.journal import NO_JOURNAL, Journal

PEER = Principal()
"""A caller of whom nothing is known."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One attempt at one call. `remaining` is the time in seconds that is left for the turn.

    `principal` is who calls, `depth` the number of turns above this one. `operator` had it executed again in the
    caller's name: whether the caller may still do what it could is then for the runtime to check.
    `task` is the caller's id of the task that the call belongs to. `model` (`PROVIDER.NAME`) replaces the agent's own
    model. `allowance` is what the attempt may spend on models. `journal` has what earlier attempts asked and heard; at
    `boundary` this attempt stops while the worker drains. Runtimes use both through `Steps`.
    """

    turn_id: str
    team: str
    agent: str
    tool: str
    arguments: JsonObject
    attempt: int
    remaining: float
    client: ClientContext
    principal: Principal = PEER
    operator: Principal | None = None
    depth: int = 0
    correlation: str | None = None
    task: str | None = None
    input_responses: JsonObject | None = None
    request_state: str | None = None
    model: str | None = None
    allowance: Allowance | None = None
    journal: Journal = NO_JOURNAL
    boundary: Boundary = field(default_factory=Boundary)


class Emitter(Protocol):
    """Publishes the events of a turn. It sets `seq` and `at`; runtimes leave them alone."""

    def emit(self, event: KnownEvent) -> None:
        """Publish an event without waiting. Never fails."""
        ...

    async def tool_starting(self, event: ToolStarted) -> None:
        """Publish that a tool is about to be called, and wait until that is stored. Then call the tool.

        Raises:
            Superseded: this attempt has been superseded or cancelled; the tool must not be called.
        """
        ...

    async def answered(self, event: Answered) -> bool:
        """Publish what a call answered. Waits only if the answer is large. False: later attempts will not have it."""
        ...


@dataclass(frozen=True, slots=True)
class Completed:
    """The turn has an answer (which may itself be a tool error of the agent's own, `is_error`)."""

    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn ended without an answer; the message is for the caller.

    `protocol_code` makes the gateway answer a JSON-RPC error instead of a tool error.
    """

    code: TurnError
    message: str
    retryable: bool = False
    protocol_code: int | None = None
    data: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class NeedsInput:
    """The tool needs more input; its caller calls again with it."""

    ask: InputRequired


type Outcome = Completed | Failed | NeedsInput


class AgentRuntime(Protocol):
    """Executes turns of one agent. All turns share it, so it keeps no state of a turn."""

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
    """An agent as a worker hosts it. `reachable`: its turns can succeed here; otherwise the presence leaves it out.

    `abandon` is called before a turn that has failed or was cancelled is ended: it cancels the turns that the turn has
    made and that still run.
    """

    definition: AgentDefinition
    runtime: AgentRuntime
    reachable: bool = True
    abandon: Callable[[TurnRef], Awaitable[None]] | None = None

    @property
    def names(self) -> tuple[str, str]:
        """Its team and its name."""
        return self.definition.team, self.definition.agent

    @property
    def key(self) -> str:
        """`{team}.{agent}`."""
        return f"{self.definition.team}.{self.definition.agent}"
