"""A registry that is not ours, with the document of the interface contract, section 1. In its modes it misbehaves."""

import asyncio
import copy
import json
from collections.abc import AsyncGenerator
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.workspaces_world.served import Served

WELL_KNOWN = "/.well-known/mcp/server.json"
MEBIBYTE = 1024 * 1024
LINK_LOCAL = "http://169.254.169.254/latest/meta-data/"

type Mode = Literal[
    "well", "page", "no_json", "large", "large_silently", "slow", "drip", "redirect", "redirects", "elsewhere",
    "link_local", "status", "compressed",
]  # fmt: skip

DOCUMENT: dict[str, Any] = {
    "servers": [
        {
            "server": {
                "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
                "name": "ca.helu.ouranos/pallas-research",
                "title": "Research Agent",
                "description": "Web search via Argos and knowledge graph via Neo4j",
                "version": "1.0.0",
                "icons": [{"src": "https://daedalus.ouranos.helu.ca/icons/research.svg", "sizes": "any"}],
                "remotes": [{"type": "streamable-http", "url": "http://puck.incus:23031/mcp"}],
                "capabilities": {
                    "model": "qwen3-8b-q5",
                    "vision": False,
                    "context_window": 200000,
                    "max_output_tokens": 32000,
                },
            },
            "_meta": {
                "io.modelcontextprotocol.registry/official": {
                    "status": "active",
                    "updatedAt": "2026-03-12T10:00:00Z",
                    "isLatest": True,
                }
            },
        },
        {
            "server": {
                "name": "ca.helu.ouranos/pallas-infra",
                "title": "Engineering Agent",
                "description": "Shell access via Kernos and repository management via Gitea",
                "version": "1.0.0",
                "remotes": [{"type": "streamable-http", "url": "http://puck.incus:23032/mcp"}],
                "capabilities": {
                    "model": "qwen3-8b-q5",
                    "vision": False,
                    "context_window": 200000,
                    "max_output_tokens": 32000,
                },
            },
            "_meta": {
                "io.modelcontextprotocol.registry/official": {
                    "status": "active",
                    "updatedAt": "2026-03-12T10:00:00Z",
                    "isLatest": True,
                }
            },
        },
    ]
}
"""The document of the contract, word for word."""


def entry(name: str, **fields: Any) -> dict[str, Any]:
    """An entry of a document, with a remote unless `fields` say otherwise."""
    remotes = [{"type": "streamable-http", "url": "http://puck.incus:23031/mcp"}]
    return {"server": {"name": name, "remotes": remotes, **fields}}


class Registry(Served):
    """The server. `servers` are the entries of its document, and `mode` may be set at any time.

    Each path has the same document, so one server is as many registries as a test wants: `base + "/teams/one"`.
    """

    def __init__(self) -> None:
        super().__init__(Starlette(routes=[Route("/{path:path}", self._serve)]))
        self.servers: list[Any] = copy.deepcopy(DOCUMENT["servers"])
        self.mode: Mode = "well"
        self.asked = list[Request]()

    async def _serve(self, request: Request) -> Response:
        self.asked.append(request)
        here = request.url.path
        if not here.endswith(WELL_KNOWN):
            return Response(status_code=404)
        match self.mode:
            case "page":
                return HTMLResponse("<h1>It works!</h1>")
            case "no_json":
                return Response("{servers", media_type="application/json")
            case "large":
                return Response(b" " * 50 * MEBIBYTE, media_type="application/json")
            case "large_silently":
                return StreamingResponse(_many(), media_type="application/json")
            case "slow":
                await asyncio.sleep(60)
            case "drip":
                return StreamingResponse(_drip(), media_type="application/json")
            case "redirect" if not here.startswith("/new"):
                return RedirectResponse(f"/new{here}", 301)
            case "redirects":
                return RedirectResponse(here)
            case "elsewhere":
                return RedirectResponse(f"http://localhost:{self.port}{here}")
            case "link_local":
                return RedirectResponse(LINK_LOCAL)
            case "status":
                return JSONResponse({"servers": self.servers}, 503)
            case "compressed":
                return Response(b"\x1f\x8b", media_type="application/json", headers={"content-encoding": "gzip"})
            case _:
                pass
        return Response(json.dumps({"servers": self.servers}), media_type="application/json")


async def _many() -> AsyncGenerator[bytes]:
    for _ in range(50):
        yield b" " * MEBIBYTE


async def _drip() -> AsyncGenerator[bytes]:
    while True:
        yield b" "
        await asyncio.sleep(0.2)
