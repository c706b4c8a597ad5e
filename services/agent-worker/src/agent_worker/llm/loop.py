"""One run of one agent: model and tools in turn, until the model answers without calling a tool.

pydantic-ai walks the graph; this drives it a node at a time, because that is where the step lines, the usage and the
limit on iterations belong. Everything here is made for one run and thrown away after it.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.run import AgentRun
from pydantic_ai.usage import UsageLimits

from agent_worker.llm.failures import RunFailed
from agent_worker.llm.messages import seed_history, seed_prompt
from agent_worker.llm.models import AgentModel
from agent_worker.llm.scope import TurnScope
from agent_worker.llm.seed import Seed
from agent_worker.llm.text import TextStream
from agent_worker.llm.tools import AgentTools
from pallas_contracts.turns import ModelCalled, ToolFailed, ToolStarted
from pallas_executor.agent_runtime import Failed

if TYPE_CHECKING:
    from pydantic_ai import CallToolsNode, ModelRequestNode
    from pydantic_ai._agent_graph import AgentNode
    from pydantic_ai.result import FinalResult
    from pydantic_graph import End

    type Node = AgentNode[object, str] | End[FinalResult[str]]

_NO_LIMITS = UsageLimits(request_limit=None)


class AgentLoop:
    """Runs an agent once."""

    def __init__(
        self,
        name: str,
        model: AgentModel,
        instruction: str,
        tools: AgentTools,
        scope: TurnScope,
        max_iterations: int,
    ) -> None:
        self._name = name
        self._model = model
        self._tools = tools
        self._scope = scope
        self._max_iterations = max_iterations
        self._iterations = 0
        self._said: list[str] = []
        # Running out of iterations is what ends a loop of refused tool calls, not a count of retries.
        self._agent: Agent[object, str] = Agent(
            model.model,
            name=name,
            deps_type=object,
            instructions=instruction or None,
            toolsets=[tools],
            model_settings=model.settings,
            retries={"tools": max_iterations},
        )

    async def run(self, seed: Seed) -> str:
        """Return all that the model said, the text before tool calls included.

        Raises:
            RunFailed: `iterations_exceeded`.
            AgentRunError: of pydantic-ai, when the model could not be called or made no sense.
            Superseded: the attempt has been superseded.
        """
        history = seed_history(seed.history)
        prompt = seed_prompt(seed)
        async with self._agent.iter(prompt, message_history=history, usage_limits=_NO_LIMITS, deps=None) as run:
            node: Node = run.next_node
            while not Agent.is_end_node(node):
                if Agent.is_model_request_node(node):
                    node = await self._ask_model(run, node)
                elif Agent.is_call_tools_node(node):
                    node = await self._use_tools(run, node)
                else:
                    node = await run.next(node)
        return "\n\n".join(self._said)

    async def _ask_model(self, run: AgentRun[object, str], node: "ModelRequestNode[object, str]") -> "Node":
        self._iterations += 1
        if self._iterations > self._max_iterations:
            text = f"agent {self._name!r} gave no answer within {self._max_iterations} iterations"
            raise RunFailed(Failed("iterations_exceeded", text))
        self._scope.step(self._name, "llm")
        began = time.perf_counter()
        if self._model.streams:
            await self._follow(run, node)
        after = await run.next(node)
        if Agent.is_call_tools_node(after):
            self._hear(after.model_response, began)
        return after

    async def _follow(self, run: AgentRun[object, str], node: "ModelRequestNode[object, str]") -> None:
        """Say the text while it comes."""
        text = TextStream(self._name, self._scope)
        async with node.stream(run.ctx) as events:
            async for event in events:
                match event:
                    case PartStartEvent(part=TextPart(content=piece)):
                        text.add(piece)
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=piece)):
                        text.add(piece)
                    case _:
                        pass
        text.flush()

    def _hear(self, response: ModelResponse, began: float) -> None:
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        if text.strip():
            self._said.append(text)
        if text and not self._model.streams:
            whole = TextStream(self._name, self._scope)
            whole.add(text)
            whole.flush()
        self._scope.say(
            ModelCalled(
                agent=self._name,
                model=self._model.name,
                duration_ms=round((time.perf_counter() - began) * 1000, 3),
                input_tokens=response.usage.input_tokens,
                output_tokens=response.usage.output_tokens,
            )
        )

    async def _use_tools(self, run: AgentRun[object, str], node: "CallToolsNode[object, str]") -> "Node":
        calls = [part for part in node.model_response.parts if isinstance(part, ToolCallPart)]
        if calls:
            self._scope.step(self._name, "tool")
            self._report_unknown(calls)
        return await run.next(node)

    def _report_unknown(self, calls: Sequence[ToolCallPart]) -> None:
        """Say that a tool nobody offered has failed; pydantic-ai tells the model. No leaf has started by that."""
        for part in calls:
            if self._tools.knows(part.tool_name):
                continue
            call = self._scope.new_call()
            server, _, tool = part.tool_name.partition("__")
            server, tool = (server, tool) if tool else (self._name, server)
            self._scope.say(ToolStarted(call=call, server=server, tool=tool, leaf=False))
            self._scope.say(ToolFailed(call=call, server=server, tool=tool, duration_ms=0.0, code="unknown_tool"))
