"""Any number of agents on one port, written by hand so that they can misbehave in every way.

Each path is an agent: `url("one")`. What an agent does is set by `modes["one"]`, and what it was sent is in `asked`.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.workspaces_world.served import Served

MEBIBYTE = 1024 * 1024
TIMESTAMP = "2026-03-12T15:42:00Z"
HEALTH_TOOL: dict[str, Any] = {
    "name": "get_health",
    "description": "Returns the health status of this agent and its downstream dependencies.",
    "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
}
AGENT_TOOL: dict[str, Any] = {"name": "send_message", "inputSchema": {"type": "object"}}
_DISCOVERED: dict[str, Any] = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "public",
}


@dataclass(frozen=True)
class Asked:
    """A request that has arrived."""

    agent: str
    method: str
    params: dict[str, Any]
    authorization: str | None

    @property
    def tool(self) -> str | None:
        """The tool of a call."""
        return self.params.get("name") if self.method == "tools/call" else None


class RawAgents(Served):
    """The server. An agent without a mode is well."""

    def __init__(self) -> None:
        super().__init__(Starlette(routes=[Route("/{agent}", self._serve, methods=["GET", "POST", "DELETE"])]))
        self.modes = dict[str, str]()
        self.healths = dict[str, Any]()
        self.capabilities = dict[str, Any]()
        self.asked = list[Asked]()
        self.gone = Counter[str]()
        self.at_once = self.most_at_once = 0
        self.go = asyncio.Event()
        self._some = asyncio.Condition()

    def url(self, agent: str) -> str:
        """The endpoint of an agent."""
        return f"{self.base}/{agent}"

    def calls(self, agent: str, tool: str = "get_health") -> list[Asked]:
        return [one for one in self.asked if one.agent == agent and one.tool == tool]

    async def until_called(self, agent: str, times: int = 1, tool: str = "get_health") -> None:
        """Wait until a tool was called so many times."""
        async with asyncio.timeout(30), self._some:
            await self._some.wait_for(lambda: len(self.calls(agent, tool)) >= times)

    async def _serve(self, request: Request) -> Response:
        agent = request.path_params["agent"]
        if request.method != "POST":
            return Response(status_code=405)
        body: dict[str, Any] = await request.json()
        bearer = request.headers.get("authorization")
        self.asked.append(Asked(agent, body["method"], body.get("params") or {}, bearer))
        async with self._some:
            self._some.notify_all()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._answer(agent, body)
        finally:
            self.at_once -= 1

    async def _answer(self, agent: str, body: dict[str, Any]) -> Response:
        method, mode = body["method"], self.modes.get(agent, "well")
        match mode:
            case "html":
                return HTMLResponse("<!doctype html><h1>It works!</h1>")
            case "status_401" | "status_403" | "status_404" | "status_500" | "status_503":
                return HTMLResponse("<h1>No</h1>", int(mode.removeprefix("status_")))
            case "no_json":
                return Response(b'{"jsonrpc": "2.0", "id":', media_type="application/json")
            case "deep":
                return Response(b"[" * 200_000, media_type="application/json")
            case "elsewhere":
                return RedirectResponse("http://169.254.169.254/latest/meta-data/", 307)
            case _:
                pass
        if method == "server/discover":
            return _result(body, {**_DISCOVERED, "capabilities": {"tools": {}, **self.capabilities}})
        if method == "tools/list":
            tools = [HEALTH_TOOL, AGENT_TOOL]
            return _result(body, {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"})
        return await self._call(agent, mode, body)

    async def _call(self, agent: str, mode: str, body: dict[str, Any]) -> Response:
        match mode:
            case "hang":
                return _events(self._silence(agent))
            case "hang_before":
                await self.go.wait()
            case "huge":
                return StreamingResponse(_megabytes(body["id"]), media_type="application/json")
            case "values":
                return StreamingResponse(_values(body["id"]), media_type="application/json")
            case "huge_event":
                return _events(_megabytes(body["id"]))
            case "flood":
                return _events(self._flood(agent, body))
            case "cut":
                return _events(_cut())
            case "ends":
                return _events(_nothing())
            case "compressed":
                return Response(b"\x1f\x8b", media_type="application/json", headers={"content-encoding": "gzip"})
            case "other_id":
                return _result({"id": "another"}, _said("hello"))
            case "refuses":
                return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32602, "message": "No"}})
            case "prose":
                return _result(body, _said("I am fine, thank you!"))
            case _:
                pass
        if body["params"]["name"] == "get_health":
            health = self.healths.get(agent, {"status": "ok", "timestamp": TIMESTAMP})
            return _result(body, _said(health if isinstance(health, str) else json.dumps(health)))
        return _result(body, _said(f"echo: {body['params']['arguments'].get('message')}"))

    async def _silence(self, agent: str) -> AsyncGenerator[bytes]:
        try:
            yield b": nothing yet\n\n"
            await self.go.wait()
        finally:
            self.gone[agent] += 1

    async def _flood(self, agent: str, body: dict[str, Any]) -> AsyncGenerator[bytes]:
        token = body["params"].get("_meta", {}).get("progressToken")
        try:
            for number in range(1_000_000):
                params = {"progressToken": token, "progress": number, "message": "x" * 100}
                notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                yield f"event: message\ndata: {json.dumps(notice)}\n\n".encode()
                await asyncio.sleep(0)
        finally:
            self.gone[agent] += 1


def _result(body: dict[str, Any], result: dict[str, Any]) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": result})


def _said(text: str) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": False}


def _events(parts: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(parts, media_type="text/event-stream")


async def _values(request_id: object) -> AsyncGenerator[bytes]:
    yield b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [], "structuredContent": {"a": [' % request_id
    for _ in range(100):
        yield b"[]," * 4000
    yield b"0]}}}"


async def _megabytes(request_id: object) -> AsyncGenerator[bytes]:
    yield b'data: {"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "' % request_id
    for _ in range(64):
        yield b"x" * MEBIBYTE


async def _cut() -> AsyncGenerator[bytes]:
    yield b": nothing yet\n\n"
    raise ConnectionError


async def _nothing() -> AsyncGenerator[bytes]:
    yield b": nothing to say\n\n"
