"""A model that gives prepared responses, and agents on it."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)
from pydantic_ai.settings import ModelSettings
from tests.runtimes import Events, a_turn, text_of

from agent_worker.llm.models import AgentModel
from agent_worker.llm.offline import offline_model
from agent_worker.llm.runtime import LlmRuntime
from pallas_turns.runtime import Failed

CLERK, BOB = "clerk__clerk", "bob__bob"
"""The tools of an agent: one for each sub-agent."""

THOUGHT = ThinkingPart("hm")
CUT = '{"message": '
"""Arguments that are no JSON."""


class Scripted:
    """A model that gives the responses in order, the last one again and again, and keeps what it was asked."""

    def __init__(self, *responses: ModelResponse | str | list[ModelResponsePart]) -> None:
        self.asked: list[list[ModelMessage]] = []
        self.offered: list[AgentInfo] = []
        self._responses = responses

    def model(self, settings: ModelSettings, *, streams: bool) -> AgentModel:
        model = FunctionModel(self._answer, stream_function=self._stream, model_name="scripted")
        return AgentModel("scripted", model, streams, settings)

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given = self._responses[min(len(self.asked), len(self._responses) - 1)]
        self.asked.append(messages)
        self.offered.append(info)
        if isinstance(given, ModelResponse):
            return replace(given)
        return ModelResponse([TextPart(given)] if isinstance(given, str) else given)

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls | DeltaThinkingCalls]:
        for index, part in enumerate((await self._answer(messages, info)).parts):
            match part:
                case TextPart(content=text):
                    for word in re.findall(r"\S+\s*|^$", text):
                        yield word
                case ThinkingPart(content=text, signature=signature):
                    yield {index: DeltaThinkingPart(content=text, signature=signature)}
                case ToolCallPart(tool_name=name, args=given, tool_call_id=number):
                    arguments = given if isinstance(given, str) else json.dumps(given)
                    yield {index: DeltaToolCall(name, arguments, tool_call_id=number)}
                case _:
                    raise TypeError(f"{part!r} cannot be streamed")

    def results(self) -> list[ToolReturnPart]:
        """The results that the last request gave for the calls of the response before."""
        return [part for part in self.asked[-1][-1].parts if isinstance(part, ToolReturnPart)]


def call(tool: str, arguments: str | dict[str, Any] | None = None, number: str = "1") -> ToolCallPart:
    """A call of a tool, whose result is "ok" unless it says otherwise. Its number is its id."""
    return ToolCallPart(tool, {"message": "/say ok"} if arguments is None else arguments, tool_call_id=number)


def an_agent(
    script: Scripted,
    *,
    instruction: str = "Be kind.",
    most: int = 6,
    streams: bool = False,
    vision: bool = False,
    settings: ModelSettings | None = None,
    alone: bool = False,
) -> LlmRuntime:
    """An agent on the scripted model. Its tools are two sub-agents on the offline model, unless it is alone."""
    offline = AgentModel("offline", offline_model(), streams=False, settings=ModelSettings())
    tools = () if alone else tuple(LlmRuntime(n, f"does {n}", "", offline, False, 6, {}) for n in ("clerk", "bob"))
    model = script.model(settings or ModelSettings(), streams=streams)
    return LlmRuntime("harper", "harper", instruction, model, vision, most, {}, tools)


async def failure(agent: LlmRuntime, events: Events | None = None) -> Failed:
    """The reason of a turn that fails."""
    outcome = await agent.run_turn(a_turn(message="ask"), events or Events())
    assert isinstance(outcome, Failed), outcome
    return outcome


async def answer(agent: LlmRuntime, events: Events | None = None, message: str = "ask", **arguments: Any) -> str:
    """The text of a turn that is answered."""
    return text_of(await agent.run_turn(a_turn(message=message, **arguments), events or Events()))


both = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
"""With a model whose text is requested as a whole, and piece by piece."""
