"""One run of one agent: model and tools alternate until the model answers without calling a tool.

A run is a list of messages that grows. Only `AgentLoop._request` calls the model, and only `ToolCalls._make` a tool.
What they return is all that the rest of the run needs of that call. It is kept in the journal; a run of a later attempt
takes it from there, and makes only the calls that have no answer yet. All objects here belong to one run.
"""

import time
from collections.abc import Sequence

from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    UserPromptPart,
    repair_messages,
)
from pydantic_ai.models import ModelRequestParameters

from agent_worker.llm.calls import AgentJournal, ToolCalls, accept_response
from agent_worker.llm.failures import RunFailed, fault_of
from agent_worker.llm.models import AgentModel, seed_history, seed_prompt
from agent_worker.llm.results import no_output
from agent_worker.llm.spans import RunSpans
from agent_worker.llm.tools import AgentTools
from pallas_contracts.turns import ModelCalled, ModelFailed
from pallas_hosting.definition import TextStream, TurnScope
from pallas_hosting.seed import Seed
from pallas_turns.runtime import Failed


class AgentLoop:
    """Runs an agent once. `place` is the prefix of the names of its calls in the turn (see `Answered`)."""

    def __init__(
        self,
        name: str,
        model: AgentModel,
        instruction: str,
        tools: AgentTools,
        scope: TurnScope,
        journal: AgentJournal,
        place: str,
        max_iterations: int,
    ) -> None:
        self._name = name
        self._model = model
        self._instruction = instruction.strip() or None
        self._tools = tools
        self._scope = scope
        self._journal = journal
        self._place = place
        self._max_iterations = max_iterations
        self._spans = RunSpans(name, model)
        self._calls = ToolCalls(name, model, tools, scope, journal, self._spans)
        self._asked_for_output = False

    async def run(self, seed: Seed) -> str:
        """Return all text of the model, including the text before tool calls.

        Raises:
            RunFailed: `iterations_exceeded`.
            AgentRunError: the model could not be called, or its response is invalid.
            Superseded: the attempt has been superseded.
            JournalUnusable: answers of earlier attempts do not fit this agent.
        """
        with self._spans.run() as ended:
            text = await self._run(seed)
            ended(text)
            return text

    async def _run(self, seed: Seed) -> str:
        asked = self._message(UserPromptPart(seed_prompt(seed)))
        messages = repair_messages([*seed_history(seed.history), asked])
        texts: list[str] = []
        for number in range(1, self._max_iterations + 1):
            call = f"{self._place}{number}"
            response = self._taken_over(call) or await self._ask_model(call, messages)
            messages.append(response)
            if (text := _text(response)).strip():
                texts.append(text)
            if response.state == "suspended":
                continue  # the provider goes on with it when it gets it back
            if response.tool_calls:
                messages.append(self._message(*await self._calls.make(call, response)))
            elif text:
                return "\n\n".join(texts)
            else:
                messages.append(self._message(self._ask_for_output(response)))
        reason = f"agent {self._name!r} gave no answer within {self._max_iterations} iterations"
        raise RunFailed(Failed("iterations_exceeded", reason))

    def _message(self, *parts: ModelRequestPart) -> ModelRequest:
        return ModelRequest(parts, instructions=self._instruction)

    def _taken_over(self, call: str) -> ModelResponse | None:
        response = self._journal.response(call)
        if response is not None:
            self._scope.step_taken_over(self._name)
        return response

    async def _ask_model(self, call: str, messages: Sequence[ModelMessage]) -> ModelResponse:
        if (failed := self._scope.exhausted()) is not None:
            raise RunFailed(failed)
        async with self._scope.steps.under_way():
            self._scope.step(self._name, "llm")
            began = time.perf_counter()
            try:
                response = accept_response(await self._request(messages))
            except AgentRunError as error:
                self._report_failure(call, error, began)
                raise
            self._report(call, response, began)
            await self._journal.add_response(call, response)
            return response

    def _report(self, call: str, response: ModelResponse, began: float) -> None:
        if not self._model.streams:
            whole = TextStream(self._name, self._scope.emit)
            whole.add(_text(response))
            whole.flush()
        self._spans.add(response.usage)
        self._scope.model_called(
            ModelCalled(
                call=call,
                agent=self._name,
                model=self._model.name,
                provider=self._model.provider,
                duration_ms=_milliseconds_since(began),
                input_tokens=response.usage.input_tokens,
                output_tokens=response.usage.output_tokens,
                cached_tokens=response.usage.cache_read_tokens,
                cost=self._model.cost(response.usage),
                caller=self._scope.caller,
            )
        )

    def _report_failure(self, call: str, error: AgentRunError, began: float) -> None:
        self._scope.emit(
            ModelFailed(
                call=call,
                agent=self._name,
                model=self._model.name,
                provider=self._model.provider,
                duration_ms=_milliseconds_since(began),
                code=fault_of(error),
            )
        )

    async def _request(self, messages: Sequence[ModelMessage]) -> ModelResponse:
        """Call the model. Text is emitted as it is generated, if the model streams it."""
        parameters = ModelRequestParameters(
            function_tools=await self._tools.definitions(),
            instruction_parts=[InstructionPart(self._instruction)] if self._instruction else None,
        )
        model, settings = self._model.model, self._model.settings or None
        prepared = model.prepare_messages(list(messages), parameters)
        if not self._model.streams:
            return await model.request(prepared, settings, parameters)
        text = TextStream(self._name, self._scope.emit)
        async with model.request_stream(prepared, settings, parameters) as stream:
            async for event in stream:
                match event:
                    case PartStartEvent(part=TextPart(content=piece)):
                        text.add(piece)
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=piece)):
                        text.add(piece)
                    case _:
                        pass
        text.flush()
        return stream.get()

    def _ask_for_output(self, response: ModelResponse) -> ModelRequestPart:
        """Ask, once in a run, for text or a call where a response had neither."""
        again, self._asked_for_output = self._asked_for_output, True
        return no_output(response, self._model, has_tools=bool(self._tools.names), again=again)


def _milliseconds_since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)


def _text(response: ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))
