"""The tools of one instance of an agent, as the turn has them: a tool is called only once the log has its start.

A call that an earlier attempt has made is not made again: its result is in the journal.
"""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from fast_agent.constants import HUMAN_INPUT_TOOL_NAME
from fast_agent.types import PromptMessageExtended, RequestParams
from mcp_types import CallToolResult, TextContent

from fast_agent_worker.turns.models import ObservedModel
from fast_agent_worker.turns.people import nobody
from fast_agent_worker.turns.places import HERE, Here
from fast_agent_worker.turns.relay import bare
from fast_agent_worker.turns.scope import TurnScope
from pallas_contracts.turns import ToolStarted

_UNKNOWN = (
    "The tool had started when the worker was lost. Whether it took effect is unknown. It has not been called again; "
    "check before you do."
)


class ObservedTools:
    """Stands in for the methods of an agent by which fast-agent calls its tools."""

    def __init__(self, agent: Any, model: ObservedModel, scope: TurnScope) -> None:
        self._agent, self._model, self._scope = agent, model, scope
        self._name = bare(agent.name)
        before = getattr(agent.run_tools, "__self__", None)
        # An agent that gets another model is observed anew, and not twice.
        own = (before._run_tools, before._call_tool) if isinstance(before, ObservedTools) else None
        self._run_tools, self._call_tool = own or (agent.run_tools, agent.call_tool)
        agent.run_tools, agent.call_tool = self.run_tools, self.call_tool

    async def run_tools(
        self, request: PromptMessageExtended, request_params: RequestParams | None = None
    ) -> PromptMessageExtended:
        """Call the tools of an answer, but for those whose results are in the journal."""
        scope, calls = self._scope, request.tool_calls or {}
        places = {each: f"{self._model.place}.{number}" for number, each in enumerate(calls, 1)}
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
                result = nobody()
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
    if name in getattr(agent, "_execution_tools", {}):
        return "function", name, True, False
    if aggregator is not None and (found := _of_server(aggregator.tool_catalog(), name)) is not None:
        hints = found.tool.annotations
        safe = hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
        return aggregator.server_display_name(found.server_name), found.tool.name, True, safe
    if name.startswith("agent__"):
        return name.removeprefix("agent__"), name, False, False
    if name == HUMAN_INPUT_TOOL_NAME:
        return "person", name, False, False
    return "shell", name, True, False


def _of_server(catalog: Any, name: str) -> Any:
    """The tool that fast-agent calls by a name: models may leave the server's name out."""
    return catalog.namespaced_tool(name) or catalog.first_tool_named(name)


def _error(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
