"""One agent as an MCP server, in all protocol revisions at once and with no state between requests.

The server knows an agent by its definition only. When the definition changes, subscribed clients are notified of what
they may have cached.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, override

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from agent_gateway.answers.results import COMPLETE, WireResult, read_error, refused, result_of
from agent_gateway.caller import principal_of
from agent_gateway.mcp.definitions import (
    GET_HEALTH,
    HEALTH_TOOL,
    AnswerSchemas,
    get_health,
    prompts_of,
    resources_of,
    templates_of,
    tools_of,
)
from agent_gateway.mcp.observers import Platform, event_stream_of, progress_observer, stream_observer
from agent_gateway.mcp.request import (
    CANCEL_META,
    KEY_META,
    SESSION_HEADER,
    TEXT_META,
    Context,
    call_of,
    cancels,
    idempotency_key,
    is_modern,
    scope_of,
    session_of,
)
from agent_gateway.mcp.subscriptions import Listening, ResourceChanges, StandingStreams
from agent_gateway.open_streams import OpenStreams
from pallas_bus.ask import ask
from pallas_contracts.agents import AgentDefinition, AgentRead, JsonObject, ToolDefinition
from pallas_contracts.catalog import READ_AGENT
from pallas_contracts.errors import NotFound, PallasError, Rejected
from pallas_contracts.turns import Result, TurnRequested
from pallas_runtime.telemetry import of_turn
from pallas_turns.claims import TurnRef
from pallas_turns.keys import call_once, cancel_key
from pallas_turns.model import Refusal, TurnEnd
from pallas_turns.submit import ToolSchemas, find_tool, make_request, unusable

log = logging.getLogger(__name__)

EXPERIMENTAL: Mapping[str, Mapping[str, Any]] = {KEY_META: {}, CANCEL_META: {}, TEXT_META: {}}
"""The experimental capabilities: what a `tools/call` may have in its `_meta`."""
MOST_STREAMS, MOST_OF_A_CALLER = 1024, 64
"""Streams of changes of one agent that are open at a time: in all, and of one caller."""
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
        self._schemas, self._answers = ToolSchemas(self._key), AnswerSchemas(self._key)
        self.resources = ResourceChanges(self._tell_updated)
        streams = OpenStreams("streams of changes of this agent", MOST_STREAMS, MOST_OF_A_CALLER)
        self._listening = Listening(self._changes, streams, self.resources, self._readable)
        self.standing = StandingStreams(self._key, self.platform.sessions, self._changes, streams, self.resources)
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
            on_subscriptions_listen=self._listening,
        )
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_log_level)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, self._get_prompt)
        if has_resources:
            server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read_resource)
        if has_resources and definition.announces:
            server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
            server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        if definition.completes:
            server.add_request_handler("completion/complete", types.CompleteRequestParams, self._complete)
        server.middleware.append(RequestStateBoundary(self.state_security, default_audience=self._key))
        return server

    @property
    def _key(self) -> str:
        return f"{self.definition.team}.{self.definition.agent}"

    def end_listening(self) -> None:
        """End all streams of changes in the protocol's own way."""
        self._listening.close()
        self.standing.close()

    def _tell_updated(self, uri: str) -> None:
        self.platform.bus.spawn(self._changes.publish(ResourceUpdated(uri)))

    async def change(self, definition: AgentDefinition) -> None:
        """Serve a changed definition and announce which lists are different."""
        before, self.definition = self.definition, definition
        self._schemas, self._answers = ToolSchemas(self._key), AnswerSchemas(self._key)
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

    async def _readable(self, context: Context, uris: Sequence[str]) -> list[str]:
        """Which of these resources there are for the caller, if their changes are announced."""

        async def is_there(uri: str) -> bool:
            try:
                await self._read(context, "resources/read", types.ReadResourceRequestParams(uri=uri))
            except MCPError as error:
                if isinstance(error.__cause__, NotFound):
                    return False
                raise
            return True

        there = await asyncio.gather(*map(is_there, uris)) if self.definition.announces else ()
        return [uri for uri, found in zip(uris, there, strict=False) if found]

    async def _subscribe(self, context: Context, params: types.SubscribeRequestParams) -> WireResult:
        """Subscribe a session to a resource that its caller can read."""
        await self._read(context, "resources/read", types.ReadResourceRequestParams(uri=params.uri))
        return await self._subscribe_session(context, params.uri, wanted=True)

    async def _unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> WireResult:
        return await self._subscribe_session(context, params.uri, wanted=False)

    async def _subscribe_session(self, context: Context, uri: str, *, wanted: bool) -> WireResult:
        change = partial(self.platform.sessions.subscribe, agent=self._key, uri=uri, wanted=wanted)
        return await self._set_in_session(context, change)

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
            return await self._execute(context, tool, request, cancelling=cancelling)

    async def check(self, name: str, arguments: JsonObject) -> tuple[ToolDefinition, JsonObject] | Refusal:
        """The tool of that name (or alias), and arguments that fit it.

        Raises:
            NotFound: the agent has no such tool.
        """
        if name != GET_HEALTH and self.definition.unusable is not None:
            return unusable(self.definition.unusable)
        tool = HEALTH_TOOL if name == GET_HEALTH else find_tool(self.definition, name)
        checked = await self._schemas.check(tool, arguments)
        return checked if isinstance(checked, Refusal) else (tool, checked)

    async def misfits(self, tool_name: str | None, end: TurnEnd) -> list[str]:
        """What in the answer of a turn does not fit the output schema of its tool."""
        tool = self.definition.tool(tool_name) if tool_name is not None else None
        if tool is None or not isinstance(end.answer, Result):
            return []
        if faults := await self._answers.misfits(tool, end.answer):
            log.warning("an answer does not fit its schema", extra={"tool": tool_name, "reason": "; ".join(faults)})
        return faults

    async def _execute(
        self, context: Context, tool: ToolDefinition, request: TurnRequested, *, cancelling: bool
    ) -> WireResult:
        """Make the turn and follow it to its end, on a stream that can be resumed where there is one; or cancel it."""
        level, limits = self._log_level(context), self.definition.limits
        stream = event_stream_of(context)
        if cancelling:
            end = await cancel_key(self.platform.calls, request)
        elif stream is None:
            observer = progress_observer(context, self.definition.agent, level)
            end = await call_once(self.platform.calls, request, limits, observer)
        else:
            observer = stream_observer(context, stream, self.platform, tool, request, level)
            end = await call_once(self.platform.calls, request, limits, observer)
            await observer.answered()
            if isinstance(end, TurnEnd):
                stream.number_answer(observer.id_at(end.cursor))
        if isinstance(end, Refusal):
            return refused(end)
        return result_of(end, modern=is_modern(context), faults=await self.misfits(tool.name, end))

    async def _set_log_level(self, context: Context, params: types.SetLevelRequestParams) -> WireResult:
        return await self._set_in_session(context, partial(self.platform.sessions.set_log_level, level=params.level))

    async def _set_in_session(self, context: Context, change: Callable[[str, str], Awaitable[None]]) -> WireResult:
        if (session := session_of(context)) is None:
            message = f"{context.method} needs the {SESSION_HEADER} of initialize."
            raise MCPError(code=types.INVALID_REQUEST, message=message)
        try:
            await change(session, principal_of(scope_of(context)).token)
        except PallasError as error:
            code = types.INVALID_PARAMS if isinstance(error, Rejected) else types.INTERNAL_ERROR
            raise MCPError(code=code, message=error.message, data={"code": error.code}) from error
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
        definition.announces,
        definition.allow is None,
    )


def _cache_hints(definition: AgentDefinition) -> dict[CacheableMethod, CacheHint]:
    """How long answers are good for, and whether for others than who has asked."""
    listed = CacheHint(_LIST_MS, "public" if definition.allow is None else "private")
    # What an agent's owner reads may be another caller's business, and different the next time.
    return {**dict.fromkeys(_LISTS, listed), "resources/read": CacheHint(0, "private")}
