"""One agent as an MCP server, in all protocol revisions at once and with no state between requests.

The server knows an agent by its definition only. A definition may change while the server lives; what a client may have
cached is then announced to whoever listens.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
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
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least
from starlette.requests import Request

from agent_gateway.answers.progress import ProgressRelay, wanted_levels
from agent_gateway.answers.results import (
    COMPLETE,
    WireResult,
    read_error,
    refused,
    result_of,
)
from agent_gateway.caller import principal_of
from agent_gateway.dedicated_port import is_released
from agent_gateway.handshake.event_stream import (
    PRIMED_SINCE,
    SCOPE_KEY,
    EventStream,
    StreamRelay,
)
from agent_gateway.handshake.model import FollowedCall
from agent_gateway.mcp.definitions import (
    GET_HEALTH,
    HEALTH_TOOL,
    prompts_of,
    resources_of,
    templates_of,
    tools_of,
)
from agent_gateway.mcp.idempotency import idempotency_key
from agent_gateway.ports import Turns
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.arguments import ToolSchemas, check_arguments, find_tool
from pallas_calls.model import Call, Refusal
from pallas_calls.submit_turn import Submitted
from pallas_contracts.agents import AgentDefinition, AgentRead
from pallas_contracts.errors import NotFound, PallasError
from pallas_contracts.turns import ClientContext, LogMessage, Principal, TurnRequested
from pallas_runtime.telemetry import of_turn

type Context = ServerRequestContext[Any, Request]

SESSION_HEADER = "mcp-session-id"
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
    """Serves one agent. `turns` is all it can do with the platform."""

    definition: AgentDefinition
    turns: Turns
    state_security: RequestStateSecurity

    def __post_init__(self) -> None:
        self._changes = InMemorySubscriptionBus()
        self._schemas = ToolSchemas(self.definition)
        self.listening = ListenHandler(self._changes)
        self.server = self._make_server()

    def _make_server(self) -> Server[Any]:
        definition = self.definition
        has_resources = bool(definition.resources)
        server = Server[Any](
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
        self._schemas = ToolSchemas(definition)
        if before.tools != definition.tools:
            await self._changes.publish(ToolsListChanged())
        if before.prompts != definition.prompts:
            await self._changes.publish(PromptsListChanged())
        if before.resources != definition.resources:
            await self._changes.publish(ResourcesListChanged())

    def can_change_to(self, definition: AgentDefinition) -> bool:
        """Whether a changed definition needs no new server: what a server says of itself is fixed for its life."""
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
        question = AgentRead(team=self.definition.team, agent=self.definition.agent, method=method, params=asked)
        try:
            return {**COMPLETE, **await self.turns.read(question)}
        except PallasError as error:
            modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
            raise read_error(error, method, asked, modern=modern) from error

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> WireResult:
        if params.name == GET_HEALTH:
            return {**COMPLETE, "content": [{"type": "text", "text": await self.turns.health(self.definition)}]}
        try:
            tool = find_tool(self.definition, params.name)
        except NotFound as error:
            raise MCPError(code=types.INVALID_PARAMS, message=error.message) from error
        key = idempotency_key(context.meta)
        if isinstance(key, Refusal):
            return refused(key)
        call = _call_of(context, params, key, self._log_level(context))
        arguments = check_arguments(self._schemas, tool, call.arguments)
        if isinstance(arguments, Refusal):
            return refused(arguments)
        request = self.turns.request(self.definition, tool, arguments, call)
        known = {"team": request.team, "agent": request.agent, "turn": request.turn_id}
        with of_turn(**known, conversation=request.correlation), self.turns.following(request):
            return await self._execute(context, request)

    async def _execute(self, context: Context, request: TurnRequested) -> WireResult:
        """Put the turn into its queue and follow it to its end."""
        modern, position, limits = context.protocol_version in MODERN_PROTOCOL_VERSIONS, 0, self.definition.limits
        remember = partial(self._remember, context, TurnRef.of(request))
        try:
            submitted = await self.turns.submit(request, limits, before=remember)
            if isinstance(submitted, Refusal):
                return refused(submitted)
            position = submitted.position
            level = self._log_level(context)
            if (stream := _event_stream(context)) is not None and (request_id := context.request_id) is not None:
                token = (context.meta or {}).get("progress_token")
                call = FollowedCall(TurnRef.of(request), request_id, token, level, request.principal)
                return await self._tell_numbered(stream, call, submitted, context.protocol_version)
            listener = _listener(context, self.definition.agent, level, modern=modern)
            return result_of(await self.turns.relay(submitted, listener), modern=modern)
        except asyncio.CancelledError:
            # Closing the stream is a cancel in the modern era only; before it, a disconnect is not.
            if modern and not is_released(context.request.scope if context.request else {}):
                self.turns.abandon(request, limits, position)
            raise

    async def _tell_numbered(
        self, stream: EventStream, call: FollowedCall, submitted: Submitted, version: str
    ) -> WireResult:
        """Follow a handshake-era turn on a stream that can be taken up again."""
        relay = StreamRelay(self.turns.key, call, stream.write, primes=is_version_at_least(version, PRIMED_SINCE))
        end = await self.turns.relay(submitted, relay)
        stream.number_answer(relay.id_at(end.cursor))
        return result_of(end, modern=False)

    async def _remember(self, context: Context, ref: TurnRef) -> None:
        """Keep which turn a handshake-era request is, for its `notifications/cancelled`."""
        if (session := _session_of(context)) is not None:
            await self.turns.remember(session, request_token(context.request_id), ref)

    async def _set_log_level(self, context: Context, params: types.SetLevelRequestParams) -> WireResult:
        if (session := _session_of(context)) is None:
            raise MCPError(code=types.INVALID_REQUEST, message=f"A log level needs the {SESSION_HEADER} of initialize.")
        try:
            await self.turns.set_log_level(session, params.level)
        except PallasError as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=error.message, data={"code": error.code}) from error
        return {}

    def _log_level(self, context: Context) -> str | None:
        """The least level of log messages that the caller wants; None when it has not said."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            level = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
            return str(level) if level is not None else None
        session = _session_of(context)
        return self.turns.log_level(session) if session is not None else None


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


def _session_of(context: Context) -> str | None:
    """The handshake-era session of a request, as it may stand in a key."""
    if context.request is None or context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return None
    session = context.request.headers.get(SESSION_HEADER)
    return session_token(session, principal_of(context.request.scope)) if session else None


def bearer_owner(context: Context) -> str | None:
    """Whose a `requestState` is: what is given back has to come from the same caller. None: from any peer."""
    caller = principal_of(context.request.scope if context.request else {})
    return None if caller.type == "peer" else f"{caller.type}:{caller.id}"


def _event_stream(context: Context) -> EventStream | None:
    """The stream of a handshake-era request; None in the modern era."""
    stream = context.request.scope.get(SCOPE_KEY) if context.request else None
    return stream if isinstance(stream, EventStream) else None


def _call_of(context: Context, params: types.CallToolRequestParams, key: str | None, log_level: str | None) -> Call:
    session = context.session
    capabilities = session.client_capabilities
    return Call(
        tool=params.name,
        arguments=params.arguments or {},
        client=ClientContext(
            protocol_version=context.protocol_version,
            capabilities=capabilities.model_dump(mode="json", by_alias=True, exclude_none=True) if capabilities else {},
            log_level=log_level,
            progress="progress_token" in (context.meta or {}),
        ),
        principal=principal_of(context.request.scope if context.request else {}),
        key=key,
        input_responses=(context.params or {}).get("inputResponses"),
        request_state=(context.params or {}).get("requestState"),
    )


def _listener(context: Context, agent: str, log_level: str | None, *, modern: bool) -> ProgressRelay | None:
    wants_progress = "progress_token" in (context.meta or {})
    levels = wanted_levels(log_level, modern=modern)
    if not wants_progress and not levels:
        return None

    async def write_log(said: LogMessage) -> None:
        if said.level not in levels:
            return
        params = types.LoggingMessageNotificationParams.model_validate(
            {"level": said.level, "data": said.data, "logger": said.logger}
        )
        await context.session.send_notification(
            types.LoggingMessageNotification(params=params), related_request_id=context.request_id
        )

    return ProgressRelay(agent, modern, context.session.report_progress if wants_progress else None, write_log)


def session_token(session: str, caller: Principal) -> str:
    """A session id as it may stand in a key. Whoever has sent a bearer has sessions that are nobody else's."""
    whose = "" if caller.type == "peer" else f"{caller.type}:{caller.id}:"
    return hashlib.sha256(f"{whose}{session}".encode()).hexdigest()[:32]


def request_token(request_id: object) -> str:
    """A JSON-RPC request id (a string or a number) as it may stand in a key."""
    return hashlib.sha256(json.dumps(request_id).encode()).hexdigest()[:32]
