"""`FastAgentRuntime` executes turns of one agent. Every turn gets new instances; no state outlives its turn."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fast_agent.agents.tool_agent import ToolAgent
from fast_agent.core.agent_tool_shape import render_agent_tool_arguments
from fast_agent.types import PromptMessageExtended, RequestParams
from mcp_types import ImageContent, TextContent

from fast_agent_worker.project.load import Prepared
from fast_agent_worker.project.named_models import sees
from fast_agent_worker.project.pool import Connections
from fast_agent_worker.turns.closure import Closure
from fast_agent_worker.turns.failures import failure_of, outcome_of
from fast_agent_worker.turns.people import Resumed, resumed
from fast_agent_worker.turns.places import HERE, Here
from fast_agent_worker.turns.relay import Relay
from fast_agent_worker.turns.scope import TurnScope
from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.errors import NotFound, Rejected, Superseded
from pallas_contracts.turns import turn_error
from pallas_hosting.definition import split_ours
from pallas_hosting.metered import UNWATCHED, Watching
from pallas_hosting.seed import Image, Seed, encoded, read_seed
from pallas_teams import AgentConfig
from pallas_turns.events import Emitter
from pallas_turns.runtime import Failed, JournalUnusable, NeedsInput, Outcome, Steps, Turn

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FastAgentRuntime:
    """An agent: `config` is what the folder says of it, `name` what the project calls it.

    `shared` has the connections of the project's agents, `made_of` digests of what they are made of. `schema` is that
    of its arguments, if it has one of its own.
    """

    config: AgentConfig
    prepared: Prepared
    name: str
    shared: Mapping[str, Connections]
    made_of: Mapping[str, str]
    model: str
    schema: JsonObject | None = None
    watching: Watching = UNWATCHED

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt (see `AgentRuntime`)."""
        try:
            seed = self._seen(read_seed(self._arguments(turn.arguments), vision=sees(self.config, self.model)))
            said = resumed(turn.request_state, turn.input_responses) if turn.request_state else None
        except Rejected as error:
            return Failed(turn_error(error.code), error.message)
        steps = Steps(turn, emit)
        try:
            return await self._run(steps, emit, seed, said)
        except JournalUnusable as error:
            log.warning("the journal cannot be used", extra={"reason": error.reason})
            return steps.restart() or await self._run(steps, emit, seed, said)

    def _arguments(self, arguments: JsonObject) -> JsonObject:
        """The arguments of a turn with a message, which is fast-agent's text of those of a schema of its own."""
        if self.schema is None:
            return arguments
        own, ours = split_ours(arguments, self.schema)
        return {**ours, "message": render_agent_tool_arguments(own, configured_schema=self.schema)}

    def _seen(self, seed: Seed) -> Seed:
        """What the turn was asked, if its model gets all images of the message.

        Raises:
            Rejected: fast-agent would leave one out.
        """
        for image in seed.images:
            if not sees(self.config, self.model, image.mime_type):
                raise Rejected(f"the model does not take {image.mime_type[:64]}", code="vision_required")
        return seed

    async def read(self, question: AgentRead) -> JsonObject:
        """Refuse: the only prompt of an agent is answered from its definition.

        Raises:
            NotFound: always.
        """
        raise NotFound(f"agent {self.config.name!r} does not answer {question.method!r}")

    async def _run(self, steps: Steps, emit: Emitter, seed: Seed, said: Resumed | None) -> Outcome:
        """Run the agent in a task of its own: fast-agent may swallow a cancel, and nobody waits for it then.

        Raises:
            Superseded, JournalUnusable: the attempt cannot go on.
        """
        asks = self.name if steps.turn.client.fills_in_forms else None
        scope = TurnScope(emit, steps, config=self.config, made_of=self.made_of, watching=self.watching, asks=asks)
        closure = Closure()
        HERE.set(Here(self.name))
        work = asyncio.create_task(self._generate(closure, scope, seed, said), name=f"run {self.name}")
        try:
            await asyncio.wait({work})
            return self._outcome(work, scope)
        finally:
            scope.over = True
            closure.dispose(work)

    async def _generate(self, closure: Closure, scope: TurnScope, seed: Seed, said: Resumed | None) -> Any:
        agent = await closure.make(self.prepared, self.name, self.shared, scope, scope.steps.turn.model)
        params = RequestParams(tool_execution_handler=Relay(scope), emit_loop_progress=False)
        if said is not None:
            before, history, asked = (), said.history, said.answer
        else:
            before = agent.message_history if isinstance(agent, ToolAgent) else ()
            history = [_message(row.role, row.content, row.images) for row in seed.history]
            asked = _message("user", seed.message, seed.images)
        if isinstance(agent, ToolAgent) and agent.config.use_history:
            agent.load_message_history([*before, *history])
            history = []
        return await agent.generate([*history, asked], params)

    def _outcome(self, work: asyncio.Task[Any], scope: TurnScope) -> Outcome:
        """The outcome of a run that has ended.

        Raises:
            Superseded, JournalUnusable: the attempt cannot go on.
        """
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if scope.lost is not None:
            raise Superseded(scope.lost.message) from scope.lost
        scope.steps.check_usable()
        if scope.asked is not None:
            return NeedsInput(scope.asked)
        if scope.failed is not None:
            return scope.failed
        if error is None:
            return outcome_of(work.result(), self.config)
        if isinstance(error, asyncio.CancelledError):
            return Failed("internal", "the agent cancelled itself")
        if isinstance(error, Rejected):
            return Failed(turn_error(error.code), error.message)
        log.warning("the run failed", extra={"error": type(error).__name__})
        return failure_of(error, scope.model_error)


def _message(role: Any, text: str, images: tuple[Image, ...]) -> PromptMessageExtended:
    blocks = [ImageContent(type="image", data=encoded(it), mime_type=it.mime_type) for it in images]
    return PromptMessageExtended(role=role, content=[TextContent(type="text", text=text), *blocks])
