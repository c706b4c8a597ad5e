"""An agent whose answers a test decides, as an MCP server of the SDK in the test's process.

It keeps idempotency keys as our gateway does: calls with the same key follow the same work. `executed` is what it has
really done.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, override

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send
from tests.embedded import free_port
from tests.waiting import Collected, soon

from pallas_mcp_calls.model import CANCEL_META, ERROR_META, KEY_META, TEXT_META, TURN_META
from pallas_runtime.http.listener import bind, listening

type Context = ServerRequestContext[Any, Any]
type Result = types.CallToolResult | types.InputRequiredResult

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string"},
        "images": {"type": "array"},
        "history": {"type": "array"},
        "conversation_id": {"type": "string"},
    },
    "required": ["message"],
}


@dataclass
class Work:
    """One call, or several under one key. The test says what comes of it."""

    arguments: dict[str, Any]
    key: str | None
    wants_progress: bool = False
    followers: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last caller that followed it has left without an answer."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it was cancelled by its key."""
    responses: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _said: list[tuple[float, float | None, str]] = field(default_factory=list[tuple[float, float | None, str]])
    _ends: list[Result] = field(default_factory=list[Result])
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def message(self) -> str:
        """What the person wrote."""
        return self.arguments["message"]

    async def progress(self, message: str, progress: float = 0, total: float | None = None) -> None:
        """Send a status line."""
        await self._change(lambda: self._said.append((progress, total, message)))

    async def text(self, text: str) -> None:
        """Send a piece of the answer."""
        await self.progress(f"text: {text}")

    async def restart(self) -> None:
        """Begin with the text anew."""
        await self.progress("text restarted")

    async def answer(self, text: str, *images: tuple[str, str]) -> None:
        """End with this answer; `images` are their types and their base64."""
        more = [{"type": "image", "mimeType": kind, "data": data} for kind, data in images]
        await self._end(_result(text, {TURN_META: f"turn-{self.key}"}, more))

    async def fail(self, text: str, code: str | None = None) -> None:
        """End with an error."""
        meta = {ERROR_META: {"code": code, "retryable": False}} if code else {}
        await self._end(_result(text, meta, failed=True))

    async def ask(self, message: str, *texts: str, **others: dict[str, Any]) -> dict[str, Any]:
        """Ask the person for `texts`, and for `others` with these schemas. Returns the response."""
        properties = {**{name: {"type": "string"} for name in texts}, **others}
        schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(properties)}
        params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
        number = len(self.responses)
        asked: types.InputRequests = {"question": types.ElicitRequest(params=params)}
        await self._end(types.InputRequiredResult(input_requests=asked, request_state=f"{self.id}/{number + 1}"))
        async with self._changed:
            await soon(self._changed.wait_for(lambda: len(self.responses) > number))
        return self.responses[number]

    async def follow(self, context: Context, params: types.CallToolRequestParams) -> Result:
        """What one caller gets: all that is said, and the end of this round."""
        round_ = _round_of(params)
        if round_ > len(self.responses):
            given = params.model_dump(mode="json", exclude_none=True)["input_responses"]["question"]
            await self._change(lambda: self.responses.append(given))
        self.followers += 1
        told = 0
        try:
            while True:
                for progress, total, message in self._said[told:]:
                    await context.session.report_progress(progress, total, message)
                    told += 1
                if len(self._ends) > round_:
                    return self._ends[round_]
                async with self._changed:
                    while len(self._said) == told and len(self._ends) <= round_:
                        await self._changed.wait()
        finally:
            self.followers -= 1
            if not self.followers and len(self._ends) <= round_:
                self.left.set()

    async def cancel(self, params: types.CallToolRequestParams) -> Result:
        """Cancel the round that a call asks for, unless it is over."""
        round_ = _round_of(params)
        if len(self._ends) <= round_:
            self.cancelled.set()
            await self.fail("cancelled", "cancelled")
        return self._ends[round_]

    async def _end(self, result: Result) -> None:
        await self._change(lambda: self._ends.append(result))

    async def _change(self, change: Callable[[], object]) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()


class Agent:
    """A running agent. `works` is what it was called for, in the order in which that came."""

    def __init__(self, name: str, *, keeps_keys: bool, text: bool, cancels: bool) -> None:
        self.name = name
        self.works = Collected[Work]()
        self.health: dict[str, Any] = {"status": "ok"}
        self._by_key = dict[str, Work]()
        self._keeps_keys = keeps_keys
        self._cancels = keeps_keys and cancels
        self.unused_cancels = 0
        """How often a cancel came for a key that no call has had."""
        self._text = text
        self._port = free_port()
        self._up = AsyncExitStack()

    @property
    def url(self) -> str:
        """Its MCP endpoint."""
        return f"http://127.0.0.1:{self._port}/mcp"

    @property
    def executed(self) -> list[str]:
        """The messages of the calls that it has begun to work on."""
        return [work.message for work in self.works.items]

    async def next(self, number: int = 1) -> Work:
        """The work with this number, as soon as it is there."""
        return (await self.works.count(number))[number - 1]

    def forget(self, work: Work) -> None:
        """Forget the key of a work, so that the next call with it is a work of its own."""
        self._by_key = {key: one for key, one in self._by_key.items() if one is not work}

    async def start(self) -> None:
        """Listen. What it was called for before is remembered."""
        able = {KEY_META: self._keeps_keys, CANCEL_META: self._cancels, TEXT_META: self._text}
        experimental: dict[str, dict[str, Any]] = {name: {} for name, is_able in able.items() if is_able}

        class Peer(Server[Any]):
            @override
            def get_capabilities(self, *args: Any, **options: Any) -> types.ServerCapabilities:
                return super().get_capabilities(*args, **options).model_copy(update={"experimental": experimental})

        server = Peer("agent", version="1.0.0", on_list_tools=self._list, on_call_tool=self._call)
        security = TransportSecuritySettings(enable_dns_rebinding_protection=True, allowed_hosts=["127.0.0.1:*"])
        manager = StreamableHTTPSessionManager(server, security_settings=security)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await manager.handle_request(scope, receive, send)

        self._up = AsyncExitStack()
        await self._up.enter_async_context(manager.run())
        await self._up.enter_async_context(listening(app, bind("127.0.0.1", self._port), drain_seconds=0.1))

    async def stop(self) -> None:
        """Break all connections, and refuse new ones."""
        await self._up.aclose()

    async def _list(self, _context: Context, _params: object) -> types.ListToolsResult:
        tools = [types.Tool(name=name, input_schema=SCHEMA) for name in (self.name, "get_health")]
        return types.ListToolsResult(tools=tools)

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> Result:
        if params.name == "get_health":
            return _result(json.dumps(self.health))
        meta: dict[str, Any] = params.model_dump(mode="json", by_alias=True)["_meta"] or {}
        key = meta.get(KEY_META) if self._keeps_keys else None
        work = self._by_key.get(key) if key is not None else None
        if params.request_state is not None:
            work = next(each for each in self.works.items if params.request_state.startswith(f"{each.id}/"))
        if meta.get(CANCEL_META) is True and self._cancels:
            if work is None:
                self.unused_cancels += 1
                return _result("cancelled", failed=True)
            return await work.cancel(params)
        if work is None:
            wants_progress = "progressToken" in meta or "progress_token" in meta
            work = Work(params.arguments or {}, meta.get(KEY_META), wants_progress)
            if key is not None:
                self._by_key[key] = work
            self.works.add(work)
        elif (params.arguments or {}) != work.arguments:
            return _result("other arguments under the same key", failed=True)
        return await work.follow(context, params)


def _round_of(params: types.CallToolRequestParams) -> int:
    """How many questions the caller has answered."""
    return int((params.request_state or "/0").rpartition("/")[2])


def _result(
    text: str, meta: dict[str, Any] | None = None, more: Sequence[Any] = (), *, failed: bool = False
) -> types.CallToolResult:
    content = [{"type": "text", "text": text}, *more]
    return types.CallToolResult.model_validate({"content": content, "isError": failed, "_meta": meta})


@asynccontextmanager
async def an_agent(
    name: str = "harper", *, keeps_keys: bool = True, text: bool = True, cancels: bool = True
) -> AsyncGenerator[Agent]:
    agent = Agent(name, keeps_keys=keeps_keys, text=text, cancels=cancels)
    await agent.start()
    try:
        yield agent
    finally:
        await agent.stop()
