"""The interface between an executor and an agent runtime.

A runtime knows nothing of NATS: it gets a turn and an emitter of events, and returns how the turn ended.
Cancellation is ordinary task cancellation: a runtime cleans up and lets `CancelledError` pass.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from pallas_contracts.agents import AgentDefinition, AgentRead, JsonObject
from pallas_contracts.costs import Allowance
from pallas_contracts.turns import (
    Answered,
    ClientContext,
    Continued,
    InputRequired,
    Principal,
    Restarted,
    Result,
    ToolStarted,
    TurnError,
)
from pallas_turns.claims import TurnRef
from pallas_turns.events import Emitter
from pallas_turns.journal import NO_JOURNAL, Boundary, Journal

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


class JournalUnusable(Exception):
    """The journal does not fit what the agent does now, or an answer in it cannot be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Steps:
    """Takes answers from the journal of earlier attempts, and adds those of this one."""

    def __init__(self, turn: Turn, emit: Emitter) -> None:
        self.turn = turn
        self._journal = turn.journal
        self._boundary = turn.boundary
        self._emit = emit
        self._continued = not turn.journal.answers
        self._effect = turn.journal.effect
        self._taken = set[str]()
        self._unusable: JournalUnusable | None = None

    @property
    def ending(self) -> bool:
        """Whether the attempt is being cancelled from outside."""
        return self._boundary.ending

    def answer(self, call: str, basis: str) -> str | None:
        """The answer of a call, as JSON; None if it is to be made now.

        Raises:
            JournalUnusable: something else was called there.
        """
        entry = self._journal.answers.get(call)
        if entry is None:
            return None
        if entry.basis != basis:
            raise self.mismatch(f"call {call} was {entry.basis!r}, and is {basis!r} now")
        self._taken.add(call)
        return entry.answer

    def check_usable(self) -> None:
        """Check that no answer was found that cannot be used: a function may have caught the exception.

        Raises:
            JournalUnusable: there was one.
        """
        if self._unusable is not None:
            raise self._unusable

    def check_all_taken(self) -> None:
        """Check at the end that every answer was asked for; those inside an answered call are not.

        Raises:
            JournalUnusable: calls that were made before have not been made now.
        """
        for call, entry in self._journal.answers.items():
            parts = call.split(".")
            if not any(".".join(parts[:length]) in self._taken for length in range(1, len(parts) + 1)):
                raise self.mismatch(f"call {call} was {entry.basis!r}, and is not made now")

    def mismatch(self, reason: str) -> JournalUnusable:
        """The exception for an answer that cannot be used. It is kept, because a function may catch it."""
        self._unusable = JournalUnusable(reason)
        return self._unusable

    def is_unknown(self, call: str) -> bool:
        """Whether an earlier attempt started this call of a tool, and nobody knows what became of it."""
        return call in self._journal.unknown

    def begin(self, n: int) -> None:
        """Step `n` of the agent begins. The first one is where this attempt goes on."""
        if not self._continued:
            self._continued = True
            self._emit.emit(Continued(n=n, taken=tuple(self._journal.answers)))

    async def tool_starting(self, event: ToolStarted) -> None:
        """Publish that a tool is about to be called, as `Emitter` does."""
        if event.leaf and not event.safe:
            self._effect = event
        await self._emit.tool_starting(event)

    def under_way(self, *, safe: bool = False) -> AbstractAsyncContextManager[None]:
        """Make a call inside the block. While the worker drains, it does not begin (see `Boundary`)."""
        return self._boundary.step(safe=safe)

    def elsewhere(self) -> AbstractContextManager[None]:
        """Wait inside the block for another turn. A drain may stop the attempt meanwhile: the next one joins it."""
        return self._boundary.elsewhere()

    def hold(self) -> None:
        """From here on a drain does not stop the attempt."""
        self._boundary.hold()

    async def record(self, call: str, basis: str, answer: str | None) -> None:
        """Add the answer of a call, as JSON; None if it has none.

        Without an answer, or with one that is too large to be kept, this is a gap in the journal: what follows from it
        would be lost with the attempt. So a drain does not stop the attempt any more.
        """
        if not await self._emit.answered(Answered(call=call, basis=basis, answer=answer)):
            self.hold()

    def restart(self) -> Failed | None:
        """Start the attempt anew, without the journal. Returns why not, if a tool may have had an effect."""
        if (tool := self._effect) is not None:
            return Failed(
                "worker_lost",
                "The turn cannot go on where it stopped, because the agent has changed meanwhile. It is not executed "
                f"again, because the tool {tool.server}/{tool.tool} had started. Check before you retry.",
            )
        self._journal, self._continued, self._unusable = NO_JOURNAL, True, None
        self._emit.emit(Restarted())
        return None
