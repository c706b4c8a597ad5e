"""One agent as an MCP server, in all protocol revisions at once and with no state between requests.

The server knows an agent by its definition only. When the definition changes, subscribed clients are notified of what
they may have cached.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, override

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from agent_gateway.answers.results import COMPLETE, WireResult, read_error, refused, result_of
from agent_gateway.caller import principal_of
from agent_gateway.mcp.definitions import GET_HEALTH, HEALTH_TOOL, prompts_of, resources_of, templates_of, tools_of
from agent_gateway.mcp.get_health import get_health
from agent_gateway.mcp.idempotency import CANCEL_META, KEY_META, cancels, idempotency_key
from agent_gateway.mcp.observers import event_stream_of, progress_observer, stream_observer
from agent_gateway.mcp.platform import Platform
from agent_gateway.mcp.request import SESSION_HEADER, TEXT_META, Context, call_of, is_modern, scope_of, session_of
from pallas_bus.transport.ask import ask
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.arguments import ToolSchemas, check_arguments, find_tool, unusable
from pallas_calls.model import Refusal, TurnEnd
from pallas_calls.submit_turn import make_request
from pallas_contracts.agents import AgentDefinition, AgentRead, JsonObject, ToolDefinition
from pallas_contracts.catalog import READ_AGENT
from pallas_contracts.errors import NotFound, PallasError
from pallas_contracts.turns import TurnRequested
from pallas_runtime.telemetry import of_turn

EXPERIMENTAL: Mapping[str, Mapping[str, Any]] = {KEY_META: {}, CANCEL_META: {}, TEXT_META: {}}
"""The experimental capabilities: what a `tools/call` may have in its `_meta`."""
_LIST_MS = 5_000
_LISTS: tuple[CacheableMethod, ...] = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
)


@dataclass
class AgentServer:
    """Serves one agent."""

    definition: AgentDefinition
    platform: Platform
    state_security: RequestStateSecurity

    def __post_init__(self) -> None:
        self._changes = InMemorySubscriptionBus()
        self._schemas = ToolSchemas()
        self.listening = ListenHandler(self._changes)
        self.server = self._make_server()

    def _make_server(self) -> Server[Any]:
        definition = self.definition
        has_resources = bool(definition.resources)
        server = _Server(
            definition.agent,
            version=definition.version,
            title=definition.title,
            description=definition.description or None,
            cache_hints=_cache_hints(definition),
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,
            on_list_prompts=self._list_prompts,
            on_list_resources=self._list_resources if has_resources else None,
            on_list_resource_templates=self._list_templates if has_resources else None,
            on_subscriptions_listen=self.listening,
        )
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_log_level)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, self._get_prompt)
        if has_resources:
            server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read_resource)
        if definition.completes:
            server.add_request_handler("completion/complete", types.CompleteRequestParams, self._complete)
        server.middleware.append(
            RequestStateBoundary(self.state_security, default_audience=f"{definition.team}.{definition.agent}")
        )
        return server

    async def change(self, definition: AgentDefinition) -> None:
        """Serve a changed definition and announce which lists are different."""
        before, self.definition = self.definition, definition
        self._schemas = ToolSchemas()
        if before.tools != definition.tools:
            await self._changes.publish(ToolsListChanged())
        if before.prompts != definition.prompts:
            await self._changes.publish(PromptsListChanged())
        if before.resources != definition.resources:
            await self._changes.publish(ResourcesListChanged())

    def can_change_to(self, definition: AgentDefinition) -> bool:
        """Whether a changed definition needs no new server: what a server announces of itself never changes."""
        return _identity(self.definition) == _identity(definition)

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        if name == GET_HEALTH:
            return HEALTH_TOOL.input_schema
        tool = self.definition.tool(name)
        return tool.input_schema if tool else None

    async def _list_tools(self, _context: Context, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools_of(self.definition))

    async def _list_prompts(self, _context: Context, _params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=prompts_of(self.definition))

    async def _list_resources(self, _context: Context, _params: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=resources_of(self.definition))

    async def _list_templates(self, _context: Context, _params: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=templates_of(self.definition))

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> WireResult:
        prompt = next((prompt for prompt in self.definition.prompts if prompt.name == params.name), None)
        if prompt is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown prompt: {params.name}")
        if prompt.messages is not None:
            return {**COMPLETE, "messages": list(prompt.messages)}
        return await self._read(context, "prompts/get", params)

    async def _read_resource(self, context: Context, params: types.ReadResourceRequestParams) -> WireResult:
        return await self._read(context, "resources/read", params)

    async def _complete(self, context: Context, params: types.CompleteRequestParams) -> WireResult:
        return await self._read(context, "completion/complete", params)

    async def _read(self, context: Context, method: Any, params: types.RequestParams) -> WireResult:
        """Ask the agent's owner."""
        asked = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})
        question = AgentRead(
            team=self.definition.team,
            agent=self.definition.agent,
            method=method,
            params=asked,
            principal=principal_of(scope_of(context)),
        )
        try:
            read = await ask(self.platform.bus, READ_AGENT, question, team=question.team, agent=question.agent)
        except PallasError as error:
            raise read_error(error, method, asked, modern=is_modern(context)) from error
        return {**COMPLETE, **read.result}

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> WireResult:
        key, cancelling = idempotency_key(context.meta), cancels(context.meta)
        try:
            checked: tuple[ToolDefinition, JsonObject] | Refusal
            if isinstance(key, Refusal):
                checked = key
            elif cancelling:
                checked = find_tool(self.definition, params.name), {}
            else:
                checked = await self.check(params.name, params.arguments or {})
        except NotFound as error:
            raise MCPError(code=types.INVALID_PARAMS, message=error.message) from error
        if isinstance(refusal := key, Refusal) or isinstance(refusal := checked, Refusal):
            self.platform.calls.metrics.call_refused(self.definition.team, self.definition.agent, refusal)
            return refused(refusal)
        tool, arguments = checked
        if tool is HEALTH_TOOL:
            health = await get_health(self.platform.bus, self.platform.healths, self.definition)
            return {**COMPLETE, "content": [{"type": "text", "text": health}]}
        call = call_of(context, params, key, self._log_level(context))
        request = make_request(self.platform.key, self.definition, tool, arguments, call)
        with of_turn(**TurnRef.of(request).facts, conversation=request.correlation):
            return await self._execute(context, request, cancelling=cancelling)

    async def check(self, name: str, arguments: JsonObject) -> tuple[ToolDefinition, JsonObject] | Refusal:
        """The tool of that name (or alias), and arguments that fit it.

        Raises:
            NotFound: the agent has no such tool.
        """
        if name != GET_HEALTH and self.definition.unusable is not None:
            return unusable(self.definition.unusable)
        tool = HEALTH_TOOL if name == GET_HEALTH else find_tool(self.definition, name)
        schema = await self._schemas.of(tool)
        checked = schema if isinstance(schema, Refusal) else check_arguments(schema, tool, arguments)
        return checked if isinstance(checked, Refusal) else (tool, checked)

    async def _execute(self, context: Context, request: TurnRequested, *, cancelling: bool) -> WireResult:
        """Make the turn and follow it to its end, on a stream that can be resumed where there is one; or cancel it."""
        level, limits = self._log_level(context), self.definition.limits
        stream = event_stream_of(context)
        if cancelling:
            end = await self.platform.calls.cancel_key(request)
        elif stream is None:
            observer = progress_observer(context, self.definition.agent, level)
            end = await self.platform.calls.call(request, limits, observer)
        else:
            observer = stream_observer(context, stream, self.platform, request, level)
            end = await self.platform.calls.call(request, limits, observer)
            if isinstance(end, TurnEnd):
                stream.number_answer(observer.id_at(end.cursor))
        return refused(end) if isinstance(end, Refusal) else result_of(end, modern=is_modern(context))

    async def _set_log_level(self, context: Context, params: types.SetLevelRequestParams) -> WireResult:
        if (session := session_of(context)) is None:
            raise MCPError(code=types.INVALID_REQUEST, message=f"A log level needs the {SESSION_HEADER} of initialize.")
        try:
            await self.platform.sessions.set_log_level(session, params.level)
        except PallasError as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=error.message, data={"code": error.code}) from error
        return {}

    def _log_level(self, context: Context) -> str | None:
        """The least level of log messages that the caller wants; None if it has set none."""
        if is_modern(context):
            level = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
            return str(level) if level is not None else None
        session = session_of(context)
        return self.platform.sessions.log_level(session) if session is not None else None


class _Server(Server[Any]):
    """A server that says what Pallas adds to MCP, in all revisions."""

    @override
    def get_capabilities(self, *args: Any, **options: Any) -> types.ServerCapabilities:
        return super().get_capabilities(*args, **options).model_copy(update={"experimental": EXPERIMENTAL})


def _identity(definition: AgentDefinition) -> tuple[object, ...]:
    return (
        definition.version,
        definition.title,
        definition.description,
        bool(definition.resources),
        definition.completes,
        definition.allow is None,
    )


def _cache_hints(definition: AgentDefinition) -> dict[CacheableMethod, CacheHint]:
    """How long answers are good for, and whether for others than who has asked."""
    listed = CacheHint(_LIST_MS, "public" if definition.allow is None else "private")
    # What an agent's owner reads may be another caller's business, and different the next time.
    return {**dict.fromkeys(_LISTS, listed), "resources/read": CacheHint(0, "private")}
