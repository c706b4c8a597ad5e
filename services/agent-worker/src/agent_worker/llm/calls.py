"""The tool calls of one run: those of a response are made in parallel, and their results are in the order of the calls.

A call that is refused is not made; the model gets the reason as its result.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from pydantic_ai.exceptions import ToolFailed as ToolFailedForModel
from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_core import SchemaValidator, ValidationError, core_schema

from agent_worker.llm.journal import AgentJournal
from agent_worker.llm.models import AgentModel
from agent_worker.llm.refusals import bad_arguments, refused_again, unknown_tool
from agent_worker.llm.spans import RunSpans
from agent_worker.llm.tools import AgentTools
from pallas_contracts.turns import ToolFailed, ToolStarted
from pallas_contracts.valid import valid_json
from pallas_executor.teams.scope import TurnScope

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
