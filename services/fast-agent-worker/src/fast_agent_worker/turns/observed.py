"""Stands between an agent of fast-agent and its model and tools, also in sub-agents and members of workflows.

Each call is an event of the turn. One that an earlier attempt has made is not made again: its answer is in the journal.
A tool is called only once the log has its start.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from fast_agent.agents.tool_agent import ToolAgent
from fast_agent.constants import HUMAN_INPUT_TOOL_NAME
from fast_agent.types import LlmStopReason, PromptMessageExtended, RequestParams
from mcp_types import CallToolResult, TextContent

from fast_agent_worker.turns.failures import fault_of
from fast_agent_worker.turns.journal import basis_of
from fast_agent_worker.turns.people import Asked, nobody, question_of
from fast_agent_worker.turns.places import HERE, Here
from fast_agent_worker.turns.relay import bare
from fast_agent_worker.turns.scope import Stopped, TurnScope, milliseconds
from pallas_contracts.turns import ModelCalled, ModelFailed, ToolStarted
from pallas_executor.teams.text import TextStream

_UNKNOWN = (
    "The tool had started when the worker was lost. Whether it took effect is unknown. It has not been called again; "
    "check before you do."
)

type Ask = Callable[[], Awaitable[PromptMessageExtended]]


def observed_factory(factory: Any, scope: TurnScope) -> Any:
    """A function that makes models for agents, as `factory` does, and observes both."""

    def for_model(model: str | None = None) -> Any:
        make = factory(model=model)

        def for_agent(agent: Any, **options: Any) -> Any:
            llm = make(agent=agent, **options)
            Observed(agent, llm, scope)
            return llm

        return for_agent

    return for_model


class Observed:
    """One instance of an agent, with its model."""

    def __init__(self, agent: Any, llm: Any, scope: TurnScope) -> None:
        self._agent, self._llm, self._scope = agent, llm, scope
        self._name = bare(agent.name)
        self._place = ""
        self._text = TextStream(self._name, scope.emit)
        self._wrote = False
        self._generate, self._structured = llm.generate, llm.structured
        llm.generate, llm.structured = self.generate, self.structured
        llm.add_stream_listener(self._heard)
        if isinstance(agent, ToolAgent):
            tools: Any = agent
            before = getattr(tools.run_tools, "__self__", None)
            own = (before._run_tools, before._call_tool) if isinstance(before, Observed) else None
            self._run_tools, self._call_tool = own or (tools.run_tools, tools.call_tool)
            tools.run_tools, tools.call_tool = self.run_tools, self.call_tool

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
        self._place = scope.next_model(name)
        basis = basis_of(name, scope.made_of.get(name, ""), self._model, messages)
        answer = scope.journal.message(self._place, basis)
        if answer is None:
            answer = await self._ask(basis, ask)
        else:
            scope.step_taken_over(name)
        if self._agent.name == scope.asks and (question := question_of(messages, answer)) is not None:
            scope.asked = Asked(question)
            raise Stopped
        return answer

    async def _ask(self, basis: str, ask: Ask) -> PromptMessageExtended:
        """Call the model. fast-agent may swallow that the call was cancelled."""
        scope, place = self._scope, self._place
        async with scope.steps.under_way():
            scope.step(self._name, "llm")
            began, usage = time.perf_counter(), len(self._llm.usage_accumulator.turns)
            try:
                answer = await ask()
            except Exception as error:
                self._failed(place, error, began)
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
        tokens = [sum(count(it) or 0 for it in used) for count in _COUNTS]
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

    async def run_tools(
        self, request: PromptMessageExtended, request_params: RequestParams | None = None
    ) -> PromptMessageExtended:
        """Call the tools of an answer, but for those whose results are in the journal."""
        scope, calls = self._scope, request.tool_calls or {}
        places = {each: f"{self._place}.{number}" for number, each in enumerate(calls, 1)}
        results: dict[str, CallToolResult] = {}
        for each, call in calls.items():
            if (result := scope.journal.result(places[each], call.params.name)) is not None:
                results[each] = result
        left = {each: call for each, call in calls.items() if each not in results}
        if not left:
            scope.step_taken_over(self._name)
            return PromptMessageExtended(role="user", tool_results=results)
        scope.step(self._name, "tool")
        before = HERE.set(replace(HERE.get(), batch=places, tool=""))
        try:
            message = await self._run_tools(request.model_copy(update={"tool_calls": left}), request_params)
        finally:
            HERE.reset(before)
        scope.check()
        results |= message.tool_results or {}
        for each, call in left.items():
            scope.refused(places[each], self._name, call.params.name)
            await scope.keep(places[each], call.params.name, results[each])
        message.tool_results = {each: results[each] for each in calls}
        return message

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        tool_use_id: str | None = None,
        *,
        request_params: RequestParams | None = None,
    ) -> CallToolResult:
        """Call a tool, once the log has its start.

        Raises:
            Superseded: the attempt has been superseded; the tool was not called.
        """
        scope = self._scope
        scope.check()
        if name in getattr(self._agent, "_child_agents", {}):
            return await self._call_tool(name, arguments, tool_use_id, request_params=request_params)
        call = HERE.get().batch.get(tool_use_id or "") or scope.next_tool()
        started = self._started(call, name)
        async with scope.steps.under_way() if started.leaf else nullcontext():
            if scope.steps.is_unknown(call):
                scope.unknown(started)
                result = _error(_UNKNOWN)
            else:
                await scope.tool_starting(started)
                result = await self._call(started, name, arguments, tool_use_id, request_params)
            await scope.keep(call, name, result)
        return result

    async def _call(
        self, started: ToolStarted, name: str, arguments: Any, tool_use_id: str | None, params: Any
    ) -> CallToolResult:
        call, code = started.call, "tool_error"
        HERE.set(Here(started.server, f"{call}.", tool=call if started.leaf else ""))
        try:
            if name == HUMAN_INPUT_TOOL_NAME:
                result = await nobody()
            else:
                result = await self._call_tool(name, arguments, tool_use_id, request_params=params)
            code = "tool_error" if result.is_error else ""
        finally:
            self._scope.ended(call, code)
        return result

    def _started(self, call: str, name: str) -> ToolStarted:
        config = self._scope.config
        server, tool, leaf, hinted = target_of(self._agent, name)
        said = config.may_repeat(server, tool)
        return ToolStarted(
            call=call,
            server=server,
            tool=tool,
            leaf=leaf,
            safe=leaf and (said if said is not None else hinted),
            tell_model=config.on_unknown_tool_outcome == "tell_model",
        )


def target_of(agent: Any, name: str) -> tuple[str, str, bool, bool]:
    """Server and tool of a name that a model has called, whether it is a leaf, and whether it says that it is safe."""
    aggregator = getattr(agent, "_aggregator", None)
    if aggregator is not None and (found := aggregator.tool_catalog().namespaced_tool(name)) is not None:
        hints = found.tool.annotations
        safe = hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
        return aggregator.server_display_name(found.server_name), found.tool.name, True, safe
    if name.startswith("agent__"):
        return name.removeprefix("agent__"), name, False, False
    if name == HUMAN_INPUT_TOOL_NAME:
        return "person", name, False, False
    return "function" if name in getattr(agent, "_execution_tools", {}) else "shell", name, True, False


def _error(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


_COUNTS: tuple[Callable[[Any], int | None], ...] = (
    lambda turn: turn.prompt.total,
    lambda turn: turn.completion.total,
    lambda turn: turn.prompt.cache_read,
    lambda turn: turn.prompt.cache_write,
)
"""Tokens of a call, as `PriceTable.cost` takes them: input, output, read from the provider's cache, written there."""
