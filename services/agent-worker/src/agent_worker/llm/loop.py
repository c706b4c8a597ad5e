"""One run of one agent: model and tools alternate until the model answers without calling a tool.

It steps through pydantic-ai's graph one node at a time, to emit steps and usage and to limit iterations. All objects
here belong to one run.
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
        self._texts: list[str] = []
        # A loop of refused tool calls ends when the iterations are used up, not by a count of retries.
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
        """Return all text of the model, including the text before tool calls.

        Raises:
            RunFailed: `iterations_exceeded`.
            AgentRunError: the model could not be called, or its response is invalid.
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
        return "\n\n".join(self._texts)

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
            self._record(after.model_response, began)
        return after

    async def _follow(self, run: AgentRun[object, str], node: "ModelRequestNode[object, str]") -> None:
        """Emit the text as it is generated."""
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

    def _record(self, response: ModelResponse, began: float) -> None:
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        if text.strip():
            self._texts.append(text)
        if text and not self._model.streams:
            whole = TextStream(self._name, self._scope)
            whole.add(text)
            whole.flush()
        self._scope.emit(
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
        """Emit the failure of a tool that does not exist; pydantic-ai informs the model. No leaf tool has started."""
        for part in calls:
            if self._tools.knows(part.tool_name):
                continue
            call = self._scope.new_call()
            server, _, tool = part.tool_name.partition("__")
            server, tool = (server, tool) if tool else (self._name, server)
            self._scope.emit(ToolStarted(call=call, server=server, tool=tool, leaf=False))
            self._scope.emit(ToolFailed(call=call, server=server, tool=tool, duration_ms=0.0, code="unknown_tool"))
