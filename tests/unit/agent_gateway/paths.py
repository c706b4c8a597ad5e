"""A gateway without a broker, whose turns follow a script. It is asked over the SDK's path and over its own."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import override

import pytest
from mcp.server.request_state import RequestStateSecurity
from mcp.server.transport_security import TransportSecuritySettings
from prometheus_client import CollectorRegistry
from starlette.types import Message, Scope
from tests.builders import agent_definition
from tests.waiting import PATIENCE, soon

from agent_gateway.caller import Callers
from agent_gateway.handshake.sessions import Sessions
from agent_gateway.http.routing import GatewayHttp
from agent_gateway.mcp.endpoints import Endpoints
from agent_gateway.mcp.observers import Platform
from agent_gateway.mcp.request import bearer_owner
from agent_gateway.mcp.serve_call import serve_call
from agent_gateway.metrics import make_metrics
from pallas_bus.client import BusClient
from pallas_bus.connection import Bus
from pallas_bus.kv import Table
from pallas_contracts.agents import Limits, ToolDefinition
from pallas_contracts.auth import ResolveBearer, Resolved
from pallas_contracts.catalog import HEALTH, SESSIONS
from pallas_contracts.errors import Unavailable
from pallas_contracts.ids import TurnId
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import TurnEvent, TurnRequested
from pallas_turns import submit as submit_turn
from pallas_turns.calls import Calls
from pallas_turns.claims import Cursor
from pallas_turns.metrics import make_call_metrics
from pallas_turns.model import Observer, Refusal, TurnEnd

PATH = "/teams/red/mcp/harper"
HOST = b"gateway.example"
MOST_BYTES = 3000

TOOL = ToolDefinition(
    name="work",
    aliases=("toil",),
    input_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
)
ROUTED = ToolDefinition(
    name="weather",
    input_schema={"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}},
)
COUNTED = ToolDefinition(
    name="count", output_schema={"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
)
UNRESOLVED = ToolDefinition(name="odd", output_schema={"type": "object", "$ref": "#/$defs/nowhere"})

type End = Callable[[TurnRequested], TurnEnd | Refusal]


@dataclass(frozen=True, slots=True)
class Queued:
    """A turn waits behind so many others."""

    ahead: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """Another attempt begins."""

    number: int


@dataclass(frozen=True, slots=True)
class Script:
    """What a turn reports, and how it ends. Before it ends, `after` is awaited."""

    reports: tuple[TurnEvent | Queued | Attempt, ...]
    end: End
    after: Callable[[], Awaitable[object]] | None = None


class ScriptedCalls(Calls):
    """Calls whose turns follow the script. `seen`: the turns, and of cancelled calls whether their caller left."""

    def __init__(self) -> None:
        self.metrics = make_call_metrics(CollectorRegistry())
        self.draining = False
        self.script: Script | None = None
        self.seen: list[object] = []

    @override
    async def call(self, request: TurnRequested, limits: Limits, observer: Observer) -> TurnEnd | Refusal:
        assert self.script is not None
        self.seen.append(request.model_dump(exclude={"requested_at"}))
        try:
            await observer.on_followed()
            for number, report in enumerate(self.script.reports, 1):
                match report:
                    case Queued(ahead):
                        await observer.on_queued(ahead)
                    case Attempt(attempt):
                        await observer.on_attempt(attempt)
                    case TurnEvent():
                        await observer.on_event(report, Cursor(1, number))
                await asyncio.sleep(0)
            if self.script.after is not None:
                await self.script.after()
            return self.script.end(request)
        except asyncio.CancelledError:
            self.seen.append({"caller left": observer.caller_left()})
            raise


class LoggedSessions(Sessions):
    """Sessions that all want warnings and worse."""

    @override
    def log_level(self, session: str) -> str | None:
        return "warning"


@dataclass(frozen=True)
class Asked:
    """An HTTP request. Its body arrives in pieces of `piece` bytes."""

    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    piece: int = 1 << 20


_STATE = re.compile(rb'"requestState":\s?"v1\.[^"]+"')
_PING = re.compile(rb": ping[^\r]*\r\n\r\n")
_TIME = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")


@dataclass
class Answered:
    """What was sent back, and what the turns saw. What differs from call to call has been replaced."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    body: bytes = b""
    complete: bool = False
    seen: list[object] = field(default_factory=list[object])
    pings: set[bytes] = field(default_factory=set[bytes])

    def replace_what_changes(self) -> None:
        """Replace random values and times, and the length of a body that has them; take the pings out of it."""
        length = len(self.body)
        self.pings = {_TIME.sub(b"TIME", ping) for ping in _PING.findall(self.body)}
        self.body = _STATE.sub(b'"requestState":"sealed"', _PING.sub(b"", self.body))
        known = {(b"content-length", b"%d" % length): b"%d" % len(self.body)}
        self.headers = [
            (name, b"random" if name == b"mcp-session-id" else known.get((name, value), value))
            for name, value in self.headers
        ]


@dataclass
class Connection:
    """One request as a server of HTTP passes it to an application."""

    asked: Asked
    answered: Answered = field(default_factory=Answered)
    on_body: Callable[[bytes], object] = lambda body: None
    _sent: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    serving: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """The next piece of the body, and then the end of the connection."""
        if self._sent <= len(self.asked.body) and (self._sent == 0 or self._sent < len(self.asked.body)):
            piece = self.asked.body[self._sent : self._sent + self.asked.piece]
            self._sent += max(1, len(piece))
            return {"type": "http.request", "body": piece, "more_body": self._sent < len(self.asked.body)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a message of the response."""
        assert not self.answered.complete, "nothing follows the end of a response"
        if message["type"] == "http.response.start":
            assert not self.answered.status, "a response starts once"
            self.answered.status, self.answered.headers = message["status"], list(message["headers"])
            return
        assert self.answered.status, "a response starts before its body"
        self.answered.body += message.get("body", b"")
        self.on_body(self.answered.body)
        if not message.get("more_body"):
            self.answered.complete = True
            self.gone.set()


class Paths:
    """One gateway, asked over either path. `own` holds whether the own path took the last request that it was shown."""

    def __init__(self, http: GatewayHttp, calls: ScriptedCalls, monkeypatch: pytest.MonkeyPatch) -> None:
        self.http, self.calls = http, calls
        self.own: bool | None = None
        self._open = False
        monkeypatch.setattr("agent_gateway.http.routing.serve_call", self._while_open(serve_call))

    def _while_open[**P](self, serve: Callable[P, Awaitable[bool]]) -> Callable[P, Awaitable[bool]]:
        """`serve`, which takes no request while the own path is closed."""

        async def serving(*args: P.args, **kwargs: P.kwargs) -> bool:
            if not self._open:
                return False
            self.own = False
            self.own = await serve(*args, **kwargs)
            return self.own

        return serving

    async def ask(
        self,
        asked: Asked,
        script: Script,
        *,
        own: bool,
        connected: Callable[[Connection], Awaitable[object]] | None = None,
    ) -> Answered:
        """Send a request over the own path, or over the SDK's. `connected` is run beside it."""
        connection = Connection(asked)
        self._open, self.own = own, None
        self.calls.script, self.calls.seen = script, connection.answered.seen
        scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "headers": list(asked.headers),
            "client": ("192.0.2.1", 1),
            "query_string": b"",
            "scheme": "http",
            "server": ("127.0.0.1", 1),
            "http_version": "1.1",
            "root_path": "",
        }
        connection.serving = asyncio.create_task(self.http(scope, connection.receive, connection.send))
        if connected is not None:
            await soon(connected(connection))
        served, _ = await asyncio.wait({connection.serving}, timeout=PATIENCE)
        assert served, "the request is served to its end"
        await connection.serving
        connection.answered.replace_what_changes()
        return connection.answered

    async def ask_both(self, asked: Asked, script: Script) -> tuple[Answered, Answered]:
        """The answers of the SDK's path and of the own path to the same request."""
        return await self.ask(asked, script, own=False), await self.ask(asked, script, own=True)


async def _resolve(question: ResolveBearer) -> Resolved:
    raise Unavailable("there is no resolver")


async def _cancel_call(session: str, request: str) -> None:
    raise AssertionError("no call is cancelled")


@asynccontextmanager
async def gateway(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Paths]:
    """A gateway with one agent. All its turns have one id, so that the answers to a call are the same bytes."""
    monkeypatch.setattr("agent_gateway.mcp.server.call_once", ScriptedCalls.call)  # a key follows the script, too
    monkeypatch.setattr(submit_turn, "new_turn_id", lambda: TurnId("0" * 32))
    bus, calls = Bus("agent-gateway", "test", BusClient()), ScriptedCalls()
    platform = Platform(
        bus, calls, Table(bus, HEALTH), LoggedSessions(bus, Table(bus, SESSIONS)), LogKey("a key of the log" * 4)
    )
    security = TransportSecuritySettings(allowed_hosts=[HOST.decode()], allowed_origins=["http://gateway.example"])
    state_security = RequestStateSecurity(keys=["a key of the request state" * 2], bind_principal=bearer_owner)
    tasks: list[asyncio.Task[None]] = []
    endpoints = Endpoints(
        platform, security, state_security, MOST_BYTES, lambda work: tasks.append(asyncio.create_task(work))
    )
    endpoints.changed("red.harper", agent_definition("red", tools=(TOOL, ROUTED, COUNTED, UNRESOLVED)))
    metrics = make_metrics(CollectorRegistry())
    http = GatewayHttp(endpoints, Callers("off", _resolve, metrics.auth_failures, metrics), _cancel_call, metrics)
    yield Paths(http, calls, monkeypatch)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
