"""`FastAgentRuntime` executes turns of one agent. Every turn gets new instances; no state outlives its turn.

The run is a task of its own. fast-agent may swallow a cancel, so a cancelled turn does not wait for the run: it ends at
once, and the run is ended and disposed in the background.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fast_agent.agents.tool_agent import ToolAgent
from fast_agent.types import PromptMessageExtended, RequestParams
from mcp_types import ImageContent, TextContent

from fast_agent_worker.project.load import Prepared
from fast_agent_worker.project.pool import Connections
from fast_agent_worker.turns.closure import Closure
from fast_agent_worker.turns.failures import failure_of, outcome_of, too_many
from fast_agent_worker.turns.people import resumed
from fast_agent_worker.turns.scope import CURRENT, RELAY, TurnScope
from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.errors import NotFound, Rejected, Superseded
from pallas_contracts.turns import turn_error
from pallas_executor.agent_runtime import Emitter, Failed, NeedsInput, Outcome, Turn
from pallas_executor.teams.seed import Image, Seed, encoded, read_seed
from pallas_teams import AgentConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FastAgentRuntime:
    """An agent: `config` is what the folder says of it, `name` what the project calls it.

    `shared` has the connections of the project's agents.
    """

    config: AgentConfig
    prepared: Prepared
    name: str
    shared: Mapping[str, Connections]
    vision: bool

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt (see `AgentRuntime`)."""
        try:
            seed = read_seed(turn.arguments, vision=self.vision)
            said = resumed(turn.request_state, turn.input_responses) if turn.request_state else None
        except Rejected as error:
            return Failed(turn_error(error.code), error.message)
        scope = TurnScope(
            emit,
            asks=self.name if turn.client.fills_in_forms else None,
            max_iterations=self.config.max_iterations,
            may_repeat=self.config.may_repeat,
        )
        closure = Closure()
        CURRENT.set(scope)
        work = asyncio.create_task(self._run(closure, scope, seed, said, turn.model), name=f"run {self.name}")
        try:
            await asyncio.wait({work})
            return self._outcome(work, scope)
        finally:
            closure.dispose(work)

    async def read(self, question: AgentRead) -> JsonObject:
        """Refuse: the only prompt of an agent is answered from its definition.

        Raises:
            NotFound: always.
        """
        raise NotFound(f"agent {self.config.name!r} does not answer {question.method!r}")

    async def _run(self, closure: Closure, scope: TurnScope, seed: Seed, said: Any, model: str | None) -> Any:
        agent = await closure.make(self.prepared, self.name, self.shared, scope, model)
        if not isinstance(agent, ToolAgent) and getattr(agent, "llm", None) is not None:
            scope.step(agent.name, "llm")  # it has no loop that would say so
        params = RequestParams(tool_execution_handler=RELAY, emit_loop_progress=False)
        if said is not None:
            agent.load_message_history(said.history)
            return await agent.generate([said.answer], params)
        history = [_message(row.role, row.content, row.images) for row in seed.history]
        asked = _message("user", seed.message, seed.images)
        if isinstance(agent, ToolAgent) and agent.config.use_history:
            agent.load_message_history([*agent.message_history, *history])
            history = []
        return await agent.generate([*history, asked], params)

    def _outcome(self, work: asyncio.Task[Any], scope: TurnScope) -> Outcome:
        """The outcome of a run that has ended.

        Raises:
            Superseded: the attempt has been superseded.
        """
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if scope.lost is not None:
            raise Superseded(scope.lost.message) from scope.lost
        if scope.asked is not None:
            return NeedsInput(scope.asked.question)
        if scope.too_many is not None:
            return too_many(scope.too_many.agent)
        if error is None:
            return outcome_of(work.result(), self.config.name)
        if isinstance(error, asyncio.CancelledError):
            return Failed("internal", "the agent cancelled itself")
        log.warning("the run failed", extra={"error": type(error).__name__})
        return failure_of(error)


def _message(role: Any, text: str, images: tuple[Image, ...]) -> PromptMessageExtended:
    blocks = [ImageContent(type="image", data=encoded(it), mime_type=it.mime_type) for it in images]
    return PromptMessageExtended(role=role, content=[TextContent(type="text", text=text), *blocks])
