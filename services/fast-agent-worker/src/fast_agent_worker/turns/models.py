"""The model of one instance of an agent, as the turn has it: each call is an event and has its cost.

A call that an earlier attempt has made is not made again: its answer is in the journal.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fast_agent.types import LlmStopReason, PromptMessageExtended, RequestParams

from fast_agent_worker.turns.failures import fault_of
from fast_agent_worker.turns.journal import basis_of
from fast_agent_worker.turns.people import question_of
from fast_agent_worker.turns.relay import bare
from fast_agent_worker.turns.scope import Stopped, TurnScope, milliseconds
from pallas_contracts.costs import whole_tokens
from pallas_contracts.turns import ModelCalled, ModelFailed
from pallas_hosting.definition import TextStream

type Ask = Callable[[], Awaitable[PromptMessageExtended]]

_COUNTS: tuple[Callable[[Any], int | None], ...] = (
    lambda turn: turn.prompt.total,
    lambda turn: turn.completion.total,
    lambda turn: turn.prompt.cache_read,
    lambda turn: turn.prompt.cache_write,
)
"""Tokens of a call, as `PriceTable.cost` takes them: input, output, read from the provider's cache, written there."""


class ObservedModel:
    """Stands in for the methods of a model by which agents call it. `place` is that of its last call."""

    def __init__(self, agent: Any, llm: Any, scope: TurnScope) -> None:
        self.place = ""
        self._agent, self._llm, self._scope = agent, llm, scope
        self._name = bare(agent.name)
        self._text = TextStream(self._name, scope.emit)
        self._wrote = False
        self._generate, self._structured = llm.generate, llm.structured
        llm.generate, llm.structured = self.generate, self.structured
        llm.add_stream_listener(self._heard)

    async def generate(
        self,
        messages: list[PromptMessageExtended],
        request_params: RequestParams | None = None,
        tools: Any = None,
    ) -> PromptMessageExtended:
        """Call the model."""
        return await self._answer(messages, lambda: self._generate(messages, request_params, tools))

    async def structured(
        self, messages: list[PromptMessageExtended], model: Any, request_params: RequestParams | None = None
    ) -> tuple[Any, PromptMessageExtended]:
        """Call the model for an object of a type."""
        parsed: list[Any] = []

        async def ask() -> PromptMessageExtended:
            value, message = await self._structured(messages, model, request_params)
            parsed.append(value)
            return message

        answer = await self._answer(messages, ask)
        return (parsed[0], answer) if parsed else self._llm._structured_from_multipart(answer, model)

    async def _answer(self, messages: Sequence[PromptMessageExtended], ask: Ask) -> PromptMessageExtended:
        scope, name = self._scope, self._name
        scope.check()
        self.place = scope.next_model(name)
        basis = basis_of(name, scope.made_of.get(name, ""), self._model, messages)
        answer = scope.journal.message(self.place, basis)
        if answer is None:
            answer = await self._ask(basis, ask)
        else:
            scope.step_taken_over(name)
        if self._agent.name == scope.asks and (question := question_of(messages, answer)) is not None:
            scope.asked = question
            raise Stopped
        return answer

    async def _ask(self, basis: str, ask: Ask) -> PromptMessageExtended:
        """Call the model. fast-agent may swallow that the call was cancelled."""
        scope, place = self._scope, self.place
        async with scope.steps.under_way():
            scope.step(self._name, "llm")
            began, usage = time.perf_counter(), len(self._llm.usage_accumulator.turns)
            try:
                answer = await ask()
            except Exception as error:
                self._failed(place, error, began)
                scope.model_error = error
                raise
            if answer.stop_reason == LlmStopReason.CANCELLED:
                raise asyncio.CancelledError
            self._flush(answer)
            if answer.stop_reason == LlmStopReason.ERROR:
                self._failed(place, answer, began)
            else:
                self._called(place, began, usage)
                await scope.journal.add(place, basis, answer)
        return answer

    def _called(self, place: str, began: float, usage: int) -> None:
        scope, provider = self._scope, str(self._llm.provider.value)
        used = self._llm.usage_accumulator.turns[usage:]
        tokens = [sum(whole_tokens(count(it)) for it in used) for count in _COUNTS]
        tokens[2], tokens[3] = min(tokens[2], tokens[0]), min(tokens[3], tokens[0])
        scope.model_called(
            ModelCalled(
                call=place,
                agent=self._name,
                model=self._model,
                provider=provider,
                duration_ms=milliseconds(began),
                input_tokens=tokens[0],
                output_tokens=tokens[1],
                cached_tokens=tokens[2],
                cost=scope.watching.prices.cost(provider, self._model, *tokens),
                caller=scope.caller,
            )
        )

    def _failed(self, place: str, why: Any, began: float) -> None:
        self._scope.emit(
            ModelFailed(
                call=place,
                agent=self._name,
                model=self._model,
                provider=str(self._llm.provider.value),
                duration_ms=milliseconds(began),
                code=fault_of(why),
            )
        )

    @property
    def _model(self) -> str:
        return self._llm.model_name or "unknown"

    def _heard(self, chunk: Any) -> None:
        if chunk.event == "delta" and not chunk.is_reasoning and chunk.text:
            self._wrote = True
            self._text.add(chunk.text)

    def _flush(self, answer: PromptMessageExtended) -> None:
        """Emit the rest of an answer's text; all of it, if the model did not stream."""
        if not self._wrote:
            self._text.add(answer.last_text() or "")
        self._text.flush()
        self._wrote = False
