"""The tool calls of one run: those of a response are made in parallel, and their results are in the order of the calls.

A call that is refused is not made; the model gets the reason as its result.

Also the journal of a run, by which such a call is found again, and the mending of responses before they are kept.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from itertools import chain, count
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.exceptions import ToolFailed as ToolFailedForModel
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse, ModelResponsePart, ToolCallPart, ToolReturnPart
from pydantic_ai.usage import RequestUsage
from pydantic_core import PydanticSerializationError, SchemaValidator, ValidationError, core_schema

from agent_worker.llm.models import AgentModel
from agent_worker.llm.results import bad_arguments, refused_again, unknown_tool
from agent_worker.llm.spans import RunSpans
from agent_worker.llm.tools import AgentTools
from pallas_contracts.costs import whole_tokens
from pallas_contracts.turns import ToolFailed, ToolStarted
from pallas_contracts.valid import valid_json
from pallas_hosting.definition import TurnScope
from pallas_turns.runtime import Steps

log = logging.getLogger(__name__)

_RESPONSE = TypeAdapter(ModelResponse)
_RESULT = TypeAdapter(ToolReturnPart)


@lru_cache(maxsize=1000)
def basis_of(agent: str, instruction: str, model: str, servers: Sequence[str], agents: Sequence[str]) -> str:
    """A digest of what an agent is made of; `agents` are the digests of its sub-agents."""
    text = json.dumps([agent, instruction, model, servers, agents])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class AgentJournal:
    """The journal of one run of `agent`. Tool calls are named after the call of the model that asked for them."""

    def __init__(self, steps: Steps, agent: str, basis: str) -> None:
        self._steps = steps
        self._basis = f"{agent} {basis}"

    def response(self, call: str) -> ModelResponse | None:
        """What the model answered in an earlier attempt; None if it is to be called now.

        Raises:
            JournalUnusable: the agent has changed since, or the answer cannot be read.
        """
        return self._read(_RESPONSE, call, self._basis)

    async def add_response(self, call: str, response: ModelResponse) -> None:
        """Add what the model answered."""
        await self._add(_RESPONSE, call, self._basis, response)

    def result(self, call: str, tool: str) -> ToolReturnPart | None:
        """The result of a tool call of an earlier attempt; None if it is to be made now. Raises as `response` does."""
        return self._read(_RESULT, call, tool)

    async def add_result(self, call: str, result: ToolReturnPart) -> None:
        """Add the result of a tool call."""
        await self._add(_RESULT, call, result.tool_name, result)

    async def _add[T](self, adapter: TypeAdapter[T], call: str, basis: str, answer: T) -> None:
        try:
            text = adapter.dump_json(answer).decode()
        except PydanticSerializationError:  # half of a surrogate pair, for example
            log.warning("an answer is no JSON, so it cannot be kept for a later attempt", extra={"call": call})
            text = None
        await self._steps.record(call, basis, text)

    def _read[T](self, adapter: TypeAdapter[T], call: str, basis: str) -> T | None:
        answer = self._steps.answer(call, basis)
        if answer is None:
            return None
        try:
            return adapter.validate_json(answer)
        except ValidationError as error:
            raise self._steps.mismatch(f"the answer of call {call} cannot be read") from error


_JSON_OBJECT = SchemaValidator(core_schema.no_info_after_validator_function(valid_json, core_schema.dict_schema()))


class ToolCalls:
    """Makes the tool calls of a model's responses."""

    def __init__(
        self,
        agent: str,
        model: AgentModel,
        tools: AgentTools,
        scope: TurnScope,
        journal: AgentJournal,
        spans: RunSpans,
    ) -> None:
        self._agent = agent
        self._model = model
        self._tools = tools
        self._scope = scope
        self._journal = journal
        self._spans = spans
        self._refused: set[str] = set()
        """Tools whose arguments were no JSON object, and that have not succeeded since."""

    async def make(self, asked: str, response: ModelResponse) -> list[ToolReturnPart]:
        """Make the calls of a response and return their results. `asked` names the call of the model.

        Raises:
            UnexpectedModelBehavior: a tool is called with broken arguments again.
            Superseded: the attempt has been superseded.
            JournalUnusable: results of earlier attempts cannot be used.
        """
        calls = {f"{asked}.{number}": call for number, call in enumerate(response.tool_calls, 1)}
        results = {place: part for place, it in calls.items() if (part := self._journal.result(place, it.tool_name))}
        left = {place: call for place, call in calls.items() if place not in results}
        if left:
            self._scope.step(self._agent, "tool")
            results |= await self._make_all(left, response)
        else:
            self._scope.step_taken_over(self._agent)
        self._refused -= {part.tool_name for part in results.values() if part.outcome == "success"}
        self._refused |= {part.tool_name for part in results.values() if part.outcome == "retried"}
        return [results[place] for place in calls]

    async def _make_all(self, calls: Mapping[str, ToolCallPart], response: ModelResponse) -> dict[str, ToolReturnPart]:
        await self._tools.definitions()
        self._report_unknown(calls)
        results = {place: part for place, call in calls.items() if (part := self._refusal(call, response))}
        for place, part in results.items():
            await self._journal.add_result(place, part)
        made = [place for place in calls if place not in results]
        results |= zip(made, await _together(self._make(place, calls[place]) for place in made), strict=True)
        return results

    async def _make(self, place: str, call: ToolCallPart) -> ToolReturnPart:
        """Call a tool. A tool that fails has a result, too."""
        with self._spans.call(call) as ended:
            async with self._tools.under_way(call.tool_name):
                try:
                    content = await self._tools.call(place, call.tool_name, _arguments(call))
                    result = ToolReturnPart(call.tool_name, content, call.tool_call_id)
                except ToolFailedForModel as error:
                    result = ToolReturnPart(call.tool_name, error.message, call.tool_call_id, outcome="failed")
                await self._journal.add_result(place, result)
            ended(result)
        return result

    def _refusal(self, call: ToolCallPart, response: ModelResponse) -> ToolReturnPart | None:
        if call.tool_name not in self._tools.names:
            return unknown_tool(call, self._tools.names)
        try:
            _arguments(call)
        except ValidationError as error:
            refusal = bad_arguments(call, error)
            with self._spans.call(call) as ended:
                ended(refusal)
            if call.tool_name in self._refused:
                raise refused_again(call, response, self._model) from error
            return refusal
        return None

    def _report_unknown(self, calls: Mapping[str, ToolCallPart]) -> None:
        """Emit the failure of tools that do not exist. No leaf tool has started."""
        for call, part in calls.items():
            if part.tool_name in self._tools.names:
                continue
            server, _, tool = part.tool_name.partition("__")
            server, tool = (server, tool) if tool else (self._agent, server)
            self._scope.emit(ToolStarted(call=call, server=server, tool=tool, leaf=False))
            self._scope.emit(ToolFailed(call=call, server=server, tool=tool, duration_ms=0.0, code="unknown_tool"))


def _arguments(call: ToolCallPart) -> Any:
    if isinstance(call.args, str):
        return _JSON_OBJECT.validate_json(call.args or "{}")
    return _JSON_OBJECT.validate_python(call.args or {})


async def _together[R](coroutines: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Run them in parallel. When one raises, or when this is cancelled, none goes on."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


_WITHIN = {
    "cache_read_tokens": "input_tokens",
    "cache_write_tokens": "input_tokens",
    "output_reasoning_tokens": "output_tokens",
}
"""Tokens that are part of others. Some providers report more of them than of the whole."""


def accept_response(response: ModelResponse) -> ModelResponse:
    """The response as the rest of the run, the log and the next request can take it.

    Raises:
        UnexpectedModelBehavior: it cannot be mended.
    """
    response = replace(response, usage=_possible(response.usage), parts=_distinct(response.parts))
    try:
        _RESPONSE.dump_json(response)
    except PydanticSerializationError:  # half of a surrogate pair
        try:
            return _RESPONSE.validate_python(valid_json(_RESPONSE.dump_python(response, mode="json")))
        except ValueError as error:
            raise UnexpectedModelBehavior("The response is not valid JSON") from error
    return response


def _possible(usage: RequestUsage) -> RequestUsage:
    usage = copy(usage)
    for name, tokens in list(vars(usage).items()):
        if name.endswith("_tokens"):
            setattr(usage, name, whole_tokens(tokens))
    usage.details = {name: whole_tokens(tokens) for name, tokens in usage.details.items()}
    for part, of in _WITHIN.items():
        setattr(usage, part, min(getattr(usage, part), getattr(usage, of)))
    return usage


def _distinct(parts: Sequence[ModelResponsePart]) -> list[ModelResponsePart]:
    """The parts. Some providers give all calls of one tool the same id, by which results are told apart."""
    taken = set[str]()
    found: list[ModelResponsePart] = []
    for part in parts:
        if isinstance(part, ToolCallPart):
            given = part.tool_call_id
            ids = chain([given], (f"{given}_{number}" for number in count(2)))
            free = next(each for each in ids if each not in taken)
            taken.add(free)
            found.append(part if free == given else replace(part, tool_call_id=free))
        else:
            found.append(part)
    return found
