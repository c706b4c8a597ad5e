"""Agents that are called at an endpoint: by JSON-RPC at a foreign server, by MCP at that of the official SDK."""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pjrpc.server
import pytest
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp
from tests.integration.data_pool.lab import LOCAL, SCHEMA, Lab, Message, a_registration
from tests.requirements import requirement
from tests.waiting import soon

from pallas_contracts.turns import Result
from pallas_runtime.http.listener import bind, listening
from pallas_turns.claims import request_cancel

type Handler = Callable[[Request], Awaitable[Response]]


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncGenerator[str]:
    """Serve an application on a free port; yields its base URL."""
    listener = bind("127.0.0.1", 0)
    async with listening(app, listener, drain_seconds=1):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def an_agent(lab: Lab, app: ASGIApp, *, path: str = "/rpc", protocol: str = "json-rpc", **fields: Any) -> None:
    """Register an agent whose endpoint is this application."""
    base = await lab.stack.enter_async_context(serving(app))
    endpoint = {"url": f"{base}{path}", "protocol": protocol}
    await lab.post("server.register", a_registration(lab.agent, endpoint=endpoint, **fields))


@dataclass
class Foreign:
    """A JSON-RPC server made with pjrpc. It counts what it has done."""

    done: list[int] = field(default_factory=list[int])

    async def execute(self, **params: Any) -> Any:
        """`agent.execute`."""
        params = params.get("params", params)  # pjrpc passes all named parameters in one
        assert params["meta"]["task_id"]
        if params["function"] == "fail":
            data = {"agent_id": params["agent_id"]}
            raise pjrpc.server.exceptions.JsonRpcError(code=-32000, message="no data", data=data)
        self.done.append(params["input"]["number"])
        return {"doubled": 2 * params["input"]["number"]}

    def app(self) -> ASGIApp:
        """The application."""
        methods = pjrpc.server.MethodRegistry()
        methods.add_method(self.execute, "agent.execute")
        dispatcher = pjrpc.server.AsyncDispatcher[None]()
        dispatcher.add_methods(methods)

        async def post(request: Request) -> Response:
            answered = await dispatcher.dispatch((await request.body()).decode(), None)
            assert answered is not None
            return Response(answered[0], media_type="application/json")

        return Starlette(routes=[Route("/rpc", post, methods=["POST"])])


def answering(handler: Handler) -> ASGIApp:
    """An application with one route."""
    return Starlette(routes=[Route("/rpc", handler, methods=["POST"])])


async def ended(lab: Lab, tool: str = "double") -> tuple[str | None, str]:
    """Make a call; returns the code and the text of its end."""
    turn = await lab.call(tool, number=21)
    outcome = await turn.outcome()
    return outcome.code, turn.text


async def test_a_foreign_json_rpc_server_is_called_at_its_endpoint(lab: Lab) -> None:
    await lab.pool(pool_networks=LOCAL)
    foreign = Foreign()
    schema = {**SCHEMA, "fail": SCHEMA["double"]}
    await an_agent(lab, foreign.app(), tools=["double", "fail"], schema=schema)
    turns = [await lab.call(number=number) for number in range(10)]
    for turn in turns:
        await turn.outcome()
    results = [message.structured for turn in turns for message in turn.messages if isinstance(message, Result)]
    assert results == [{"doubled": 2 * number} for number in range(10)]
    turn = await lab.call("fail", number=1)
    await turn.outcome()
    [error] = [message for message in turn.messages if isinstance(message, Result)]
    assert error.meta == {"pallas/rpc-error": {"code": -32000, "message": "no data", "data": {"agent_id": lab.agent}}}


async def test_every_replica_can_call_an_endpoint(lab: Lab) -> None:
    pools = [await lab.pool(pool_networks=LOCAL) for _ in range(2)]
    await an_agent(lab, Foreign().app())
    for pool in pools:
        await lab.listed(pool)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"oops", 200, "Expecting value"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"doubled":1,"doubled":2}}', 200, "twice"),
        (b'{"jsonrpc":"2.0","id":2,"result":{"doubled":1}}', 200, "not the response to the request"),
        (b'{"jsonrpc":"2.0","id":1,"method":"x"}', 200, "not the response to the request"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"doubled":"x"}}', 200, "does not fit its schema"),
        (b"<html>", 502, "HTTP status 502"),
        (b"", 302, "HTTP status 302"),
        (b'"' + b"x" * (17 * 1024 * 1024) + b'"', 200, "larger than"),
    ],
    ids=["no json", "duplicate", "other id", "request", "unfitting", "bad gateway", "redirect", "large"],
)
async def test_a_malformed_answer_of_an_endpoint_fails_the_call(
    lab: Lab, body: bytes, status: int, reason: str
) -> None:
    await lab.pool(pool_networks=LOCAL)

    async def answer(_: Request) -> Response:
        headers = {"location": "http://127.0.0.1:1/"} if status == 302 else {}
        return Response(body, status, headers)

    await an_agent(lab, answering(answer))
    code, text = await ended(lab)
    assert code == "invalid_answer"
    assert reason in text


async def test_an_endpoint_in_a_network_that_is_not_allowed_is_not_called(lab: Lab) -> None:
    await lab.pool(pool_patience="0")
    foreign = Foreign()
    await an_agent(lab, foreign.app())
    code, text = await ended(lab)
    assert (code, foreign.done) == ("agent_unreachable", [])
    assert "the address is in a network that is not allowed" in text


async def test_an_endpoint_that_nobody_listens_on_is_unreachable_and_its_agent_degraded_until_it_is_reached(
    lab: Lab,
) -> None:
    pool = await lab.pool(pool_networks=LOCAL, pool_patience="0")
    endpoint = {"url": "http://127.0.0.1:9/rpc"}
    await lab.post("server.register", a_registration(lab.agent, endpoint=endpoint))
    assert await lab.trouble(pool, lambda found: found is None) is None
    assert (await ended(lab))[0] == "agent_unreachable"
    trouble = await lab.trouble(pool, lambda found: found is not None)
    assert trouble is not None
    assert trouble.status == "degraded"
    assert trouble.reason.startswith("the last call did not reach it: ")
    await an_agent(lab, Foreign().app())
    await lab.trouble(pool, lambda found: found is None)
    assert (await ended(lab))[0] is None


@pytest.mark.parametrize("protocol", ["json-rpc", "mcp"])
@pytest.mark.parametrize("listens", [False, True], ids=["refuses", "hangs"])
async def test_a_call_that_cannot_be_sent_within_a_short_timeout_is_unreachable_and_may_be_retried(
    lab: Lab, protocol: str, listens: bool
) -> None:
    await lab.pool(pool_networks=LOCAL)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as waiting:
        port = server.getsockname()[1] if listens else 9
        while listens and waiting_fills(waiting, port):
            pass
        endpoint = {"url": f"http://127.0.0.1:{port}/rpc", "protocol": protocol}
        params = a_registration(lab.agent, endpoint=endpoint, constraints={"timeout": 2})
        await lab.post("server.register", params)
        turn = await lab.call()
        outcome = await turn.outcome()
    assert (outcome.code, outcome.retryable) == ("agent_unreachable", True), turn.text


def waiting_fills(waiting: ExitStack, port: int) -> bool:
    """Open a connection that nobody accepts; False once no further one is taken."""
    peer = waiting.enter_context(socket.socket())
    peer.settimeout(0.2)
    try:
        peer.connect(("127.0.0.1", port))
    except TimeoutError:
        return False
    return True


async def test_a_call_at_an_endpoint_is_cut_off_with_its_turn(lab: Lab) -> None:
    await lab.pool(pool_networks=LOCAL)
    asked, gone = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> Response:
        await request.body()
        asked.set()
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()
        return Response()

    await an_agent(lab, answering(answer))
    turn = await lab.call()
    await soon(asked.wait())
    await request_cancel(lab.bus, turn.ref, "enough")
    assert (await turn.outcome()).status == "cancelled"
    await soon(gone.wait())


@requirement("D-2.1")
async def test_an_mcp_server_is_called_by_the_official_client_and_again_after_a_restart(lab: Lab) -> None:
    await lab.pool(pool_networks=LOCAL)
    schema: Message = {
        "double": {"input": {"number": "int"}, "output": {"doubled": "int"}},
        "count": {"input": {"text": "string"}, "output": "int"},
        "fail": {"input": {}, "output": {}},
    }
    base = await lab.stack.enter_async_context(serving(front := Swapped()))
    for _ in range(2):
        async with an_mcp_server(front):
            endpoint = {"url": f"{base}/mcp", "protocol": "mcp"}
            await lab.post(
                "server.register", a_registration(lab.agent, endpoint=endpoint, tools=[*schema], schema=schema)
            )
            code, text = await ended(lab)
            assert (code, json.loads(text)) == (None, {"doubled": 42})
            turn = await lab.call("count", text="four")
            await turn.outcome()
            assert [it.structured for it in turn.messages if isinstance(it, Result)] == [{"result": 4}]
            turn = await lab.call("fail", x=1)
            await turn.outcome()
            assert [it.is_error for it in turn.messages if isinstance(it, Result)] == [True]


@dataclass
class HostileMcp:
    """An MCP server that answers calls with what is given. Its tool has a schema on which Python's patterns hang."""

    content: bytes
    headers: dict[str, str] = field(default_factory=dict[str, str])
    repeated: int = 1
    listed: int = 0
    answers: int = 0

    async def serve(self, request: Request) -> Response:
        """Serve a request."""
        message = await request.json()
        result: Message
        match message.get("method"):
            case "initialize":
                server: Message = {"name": "hostile", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": server}
            case "tools/list":
                self.listed += 1
                hanging: Message = {
                    "type": "object",
                    "properties": {"doubled": {"type": "string", "pattern": "^(a|aa)+$"}},
                }
                tool: Message = {"name": "double", "inputSchema": {"type": "object"}, "outputSchema": hanging}
                result = {"tools": [tool]}
            case "tools/call":
                return StreamingResponse(self.parts(message["id"]), headers=self.headers, media_type="application/json")
            case _:
                return Response(status_code=202 if "id" not in message else 404)
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def parts(self, number: int) -> AsyncGenerator[bytes]:
        """The answer to a call."""
        self.answers += 1
        for _ in range(self.repeated):
            yield self.content.replace(b"$id", str(number).encode())


def called(doubled: object) -> bytes:
    """An answer with this result."""
    result: Message = {"content": [], "structuredContent": {"doubled": doubled}}
    return json.dumps({"jsonrpc": "2.0", "id": "$id", "result": result}).replace('"$id"', "$id").encode()


async def test_a_result_of_an_mcp_server_is_not_checked_by_the_sdk_which_has_patterns_that_hang(lab: Lab) -> None:
    await lab.pool(pool_networks=LOCAL)
    hostile = HostileMcp(called("a" * 60 + "!"))
    await an_agent(lab, answering(hostile.serve), protocol="mcp", schema={"double": {"input": {}, "output": "any"}})
    async with asyncio.timeout(10):
        assert (await ended(lab))[0] is None
    assert hostile.listed == 0


async def test_a_tool_that_misses_a_session_of_its_own_is_not_called_again(lab: Lab) -> None:
    await lab.pool(pool_networks=LOCAL)
    hostile = HostileMcp(b'{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"Unknown session 7"}}')
    await an_agent(lab, answering(hostile.serve), protocol="mcp")
    await ended(lab)
    assert hostile.answers == 1


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (HostileMcp(gzip.compress(called(1) + b" " * 2**26), {"content-encoding": "gzip"}), "is compressed"),
        (HostileMcp(b" " * 2**20, repeated=200), "larger than 16 MiB"),
        (HostileMcp(b'{"jsonrpc": "2.0", "id": $id, "result": {"content": [' + b"{}," * 2**20), "too many values"),
    ],
    ids=["compressed", "endless", "many values"],
)
async def test_an_answer_of_an_mcp_server_without_bounds_fails_the_call_alone(
    lab: Lab, hostile: HostileMcp, reason: str
) -> None:
    await lab.pool(pool_networks=LOCAL)
    await an_agent(lab, answering(hostile.serve), protocol="mcp")
    code, text = await ended(lab)
    assert (code, reason in text) == ("invalid_answer", True), text
    hostile.content, hostile.headers, hostile.repeated = called(42), {}, 1
    assert (await ended(lab))[0] is None


@dataclass
class Swapped:
    """An application that can be replaced, as by a restart."""

    app: ASGIApp | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        assert self.app is not None
        await self.app(scope, receive, send)


def double(number: int) -> dict[str, int]:
    """A tool that answers an object."""
    return {"doubled": 2 * number}


def count(text: str) -> int:
    """A tool whose answer is no object."""
    return len(text)


def fail() -> dict[str, int]:
    """A tool that fails."""
    raise ValueError("no data")


@asynccontextmanager
async def an_mcp_server(front: Swapped) -> AsyncGenerator[None]:
    """A server of the official SDK behind `front`."""
    server = MCPServer("foreign")
    for tool in (double, count, fail):
        server.add_tool(tool)
    front.app = server.streamable_http_app()
    async with server.session_manager.run():
        yield
