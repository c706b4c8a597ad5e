"""`LlmRuntime` executes turns of an LLM agent. Every turn gets a new agent; no state outlives its turn.

Sub-agents run in their caller's turn and slot, so waiting for slots cannot deadlock. `depends_on` has no cycles, which
bounds their nesting.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic_ai.exceptions import AgentRunError

from agent_worker.downstream.calls import MayRepeat
from agent_worker.downstream.server import DownstreamServer
from agent_worker.llm.calls import AgentJournal, basis_of
from agent_worker.llm.failures import RunFailed, run_failure
from agent_worker.llm.loop import AgentLoop
from agent_worker.llm.models import UNKNOWN_MODEL, AgentModel
from agent_worker.llm.tools import AgentTools, AskAgent, SubAgent
from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.turns import Result, turn_error
from pallas_hosting.definition import TurnScope
from pallas_hosting.seed import Seed, read_seed
from pallas_turns.events import Emitter
from pallas_turns.runtime import Completed, Failed, JournalUnusable, Outcome, Steps, Turn

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LlmRuntime:
    """An LLM agent: the configuration and pooled clients that its turns share. It keeps no state of a turn.

    `may_repeat` says which tools may be called again after a worker was lost. With `tell_model`, the model is told if
    the outcome of another one is unknown.
    """

    name: str
    description: str
    instruction: str
    model: AgentModel
    vision: bool
    max_iterations: int
    servers: Mapping[str, DownstreamServer]
    agents: tuple["LlmRuntime", ...] = ()
    instead: Callable[[str], AgentModel] | None = None
    """Returns the model that a turn names instead of the agent's own; raises `Rejected` when it cannot be used."""
    may_repeat: MayRepeat = lambda _server, _tool: None
    tell_model: bool = False

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt (see `AgentRuntime`)."""
        try:
            seed = read_seed(turn.arguments, vision=self.vision)
            model = await self._model(turn.model)
        except Rejected as error:
            return Failed(turn_error(error.code), error.message)
        steps = Steps(turn, emit)
        limit = asyncio.timeout(turn.remaining)
        try:
            async with limit:
                text = await self._go_on(seed, steps, emit, model)
        except RunFailed as error:
            return error.failed
        except TimeoutError:
            if not limit.expired():
                raise
            return Failed("turn_timeout", f"agent {self.name!r} exceeded the time limit of the turn")
        return Completed(Result(content=({"type": "text", "text": text},)))

    async def ask(self, message: str, scope: TurnScope, place: str) -> str:
        """Run as a sub-agent in the turn of `scope`. `place` is the prefix of the names of its calls.

        Raises:
            RunFailed: it has no answer.
        """
        return await self._run(Seed(message), scope, self.model, place)

    async def read(self, question: AgentRead) -> JsonObject:
        """Refuse: the only prompt of an LLM agent is answered from its definition.

        Raises:
            NotFound: always.
        """
        raise NotFound(f"agent {self.name!r} does not answer {question.method!r}")

    async def _model(self, named: str | None) -> AgentModel:
        """The agent's own model, or the one that the turn names. Sub-agents always use their own.

        Raises:
            Rejected: there is no such model.
        """
        if named is None:
            return self.model
        if self.instead is None:
            raise Rejected(f"agent {self.name!r} cannot use another model", code=UNKNOWN_MODEL)
        return await asyncio.to_thread(self.instead, named)  # importing a provider's library takes seconds

    async def _go_on(self, seed: Seed, steps: Steps, emit: Emitter, model: AgentModel) -> str:
        """Run the agent from the journal of earlier attempts, or anew if that cannot be used."""
        try:
            return await self._run(seed, TurnScope(emit, steps), model)
        except JournalUnusable as error:
            log.warning("the journal cannot be used", extra={"reason": error.reason})
            if (failed := steps.restart()) is not None:
                raise RunFailed(failed) from error
            return await self._run(seed, TurnScope(emit, steps), model)

    def basis(self, model: AgentModel) -> str:
        """A digest of what the agent is made of, with this model and with its sub-agents."""
        agents = tuple(agent.basis(agent.model) for agent in self.agents)
        return basis_of(self.name, self.instruction, model.name, tuple(self.servers), agents)

    async def _run(self, seed: Seed, scope: TurnScope, model: AgentModel, place: str = "") -> str:
        agents = (SubAgent(agent.name, agent.description, self._ask(agent, scope)) for agent in self.agents)
        tools = AgentTools(
            scope, self.servers, agents, vision=self.vision, may_repeat=self.may_repeat, tell_model=self.tell_model
        )
        journal = AgentJournal(scope.steps, self.name, self.basis(model))
        loop = AgentLoop(self.name, model, self.instruction, tools, scope, journal, place, self.max_iterations)
        try:
            return await loop.run(seed)
        except AgentRunError as error:
            raise RunFailed(run_failure(error, model.name)) from error

    @staticmethod
    def _ask(agent: "LlmRuntime", scope: TurnScope) -> AskAgent:
        async def ask(message: str, place: str) -> str:
            return await agent.ask(message, scope, place)

        return ask
