"""A small Constellation service that plays the HTTP contract, and remembers every request."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from tests.unit.cst.cases import STANDARD_FUNCTIONS, read_type

from constellation_mcp.configuration import Configuration
from pallas_cst.functions import Function
from pallas_cst.signatures import signature_json
from pallas_runtime.http.listener import bind, listening

HASH = "ab" * 32
KEY = "key-0123456789abcdefghijkl"
MODULES = [
    {"name": "data.crm.EnrichCustomer", "description": "Adds what the CRM knows", "version": "2.1", "tags": ["crm"]},
    {"name": "data.text.Uppercase", "description": "Capital letters", "version": "1.0", "tags": ["text", "read-only"]},
]
FUNCTIONS = [
    *STANDARD_FUNCTIONS,
    Function("Uppercase", (("text", read_type("String")),), read_type("String"), "data.text.Uppercase", "data.text"),
]


@dataclass
class Constellation:
    """Where it is, and its requests. `answers` are for paths that shall be answered otherwise than usual."""

    url: str = ""
    requests: list[tuple[str, str, Any, dict[str, str]]] = field(
        default_factory=list[tuple[str, str, Any, dict[str, str]]]
    )
    answers: dict[str, Response] = field(default_factory=dict[str, Response])

    @property
    def paths(self) -> list[str]:
        """Method and path of each request."""
        return [f"{method} {path}" for method, path, _, _ in self.requests]

    def configuration(self, **sections: Any) -> Configuration:
        """A configuration for this service."""
        service = {"baseUrl": self.url, "apiKey": KEY}
        agent = {"id": "claude-code", "user": "alice@acme.com"}
        return Configuration.model_validate({"constellation": service, "agent": agent, **sections})

    def app(self) -> Starlette:
        """The service."""
        return Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST", "DELETE"])])

    async def _answer(self, request: Request) -> Response:
        query = request.url.query
        path = request.scope["raw_path"].decode() + (f"?{query}" if query else "")
        body = json.loads(await request.body() or b"{}")
        self.requests.append((request.method, path, body, dict(request.headers)))
        return self.answers.get(path) or _usual(path, body)


def _usual(path: str, body: Any) -> Response:
    """What the contract says."""
    faulty = "Foo(" in body.get("source", "")
    error = {"line": 2, "column": 5, "code": "E002", "message": "Undefined function: Foo"}
    match path.split("/")[1:]:
        case ["validate"]:
            return JSONResponse({"valid": False, "errors": [error], "warnings": []} if faulty else _VALID)
        case ["compile"] if faulty:
            failed = {"success": False, "errors": ["Undefined function: Foo"], "diagnostics": [error]}
            return JSONResponse(failed, 400)
        case ["compile"]:
            stored = {"storedAs": f"user:alice/{body['name']}"} if "name" in body else {}
            return JSONResponse({**_COMPILED, **stored})
        case ["run"]:
            return JSONResponse({**_RUN, "outputs": body["inputs"], "structuralHash": HASH, "compilationErrors": []})
        case ["execute"] if body["ref"] == "nothing":
            return JSONResponse({"error": "NotFound", "message": "Pipeline 'nothing' not found"}, 404)
        case ["execute"] if body["ref"] == "fails":
            return JSONResponse({**_RUN, "success": False, "status": "failed", "error": "division by zero"})
        case ["execute"]:
            return JSONResponse({**_RUN, "outputs": body["inputs"]})
        case ["executions", _, "resume"]:
            return JSONResponse({**_RUN, "outputs": body["additionalInputs"], "resumptionCount": 1})
        case ["executions", "exec-1", "events"]:
            return PlainTextResponse('event: end\ndata: {"status": "completed"}\n\n')
        case ["executions", "exec-1"]:
            return JSONResponse({**_RUN, "outputs": {"x": 1}, "tool": "execute", "attempts": 2, "calls": []})
        case ["batch"]:
            return JSONResponse({"success": True, "results": [{**_RUN, "outputs": each} for each in body["inputs"]]})
        case ["diff"]:
            return JSONResponse({"added": ["module:B"], "removed": ["module:A"]})
        case ["modules"]:
            return JSONResponse({"modules": MODULES})
        case ["modules", name]:
            found = next((each for each in MODULES if each["name"] == name), None)
            return JSONResponse(found or {"error": "NotFound", "message": "no"}, 200 if found else 404)
        case ["pipelines"]:
            return JSONResponse({"pipelines": [{"name": "user:alice/orders", "structuralHash": HASH}]})
        case ["pipelines", "user%3Aalice%2Forders", "dag.mmd"]:
            return PlainTextResponse("flowchart TD\n")
        case ["pipelines", "user%3Aalice%2Forders"]:
            return JSONResponse({"name": "user:alice/orders", "structuralHash": HASH, "inputs": {"id": "String"}})
        case ["signatures"]:
            return JSONResponse({"functions": [signature_json(each) for each in FUNCTIONS]})
        case ["history"] | ["history?limit=5"]:
            return JSONResponse({"executions": [{"executionId": "exec-1", "structuralHash": HASH}], "cursor": None})
        case _:
            return JSONResponse({"error": "NotFound", "message": "no such path"}, 404)


_VALID: dict[str, Any] = {"valid": True, "warnings": []}
_COMPILED: dict[str, Any] = {
    "success": True,
    "structuralHash": HASH,
    "inputs": {"x": "Int"},
    "outputs": {"x": "Int"},
    "dag": {"nodes": ["input:x", "output:x"], "edges": [["input:x", "output:x"]]},
    "errors": [],
}
_RUN = {
    "success": True,
    "status": "completed",
    "error": None,
    "executionId": "exec-1",
    "metrics": {"compileTimeMs": 1, "executeTimeMs": 2, "modulesExecuted": 0},
}


@asynccontextmanager
async def a_constellation() -> AsyncGenerator[Constellation]:
    """A service that listens."""
    service, listener = Constellation(), bind("127.0.0.1", 0)
    async with listening(service.app(), listener, drain_seconds=1):
        service.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield service
