"""The tables of docs/http.md: endpoints from the routes of services, or from what matches a path.

The routes are made without their services, and never called.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any
from unittest.mock import MagicMock

from docs.site.inserted import table, with_tables
from docs.site.paths import DOCS, ROOT
from fastapi import FastAPI
from starlette.routing import Route

from agent_gateway.http.routing import GatewayHttp
from data_pool.http.routing import PATH as POOL
from library_search.http.admin import DOCUMENTS
from pallas_runtime.probes import with_probes
from pipelines.http.executions import ExecutionRoutes
from pipelines.http.modules import ModuleRoutes, ProgramRoutes
from pipelines.http.pipelines import PipelineRoutes
from pipelines.http.runs import RunRoutes
from registry import http as registry
from team_lifecycle.http import routing as lifecycle
from workspaces.http import routing as workspaces

PAGE = DOCS / "http.md"

type Row = tuple[str, ...]

_EVERY = {
    "/livez": "200 while the process runs",
    "/readyz": "200 when it can do its work; 503 with what is missing, by name",
    "/metrics": "[metrics](metrics.md) for Prometheus",
}
_GATEWAY = {
    "/rpc": ("POST", "[JSON-RPC](rpc.md) for all agents"),
    "/teams/{team}/rpc": ("POST", "JSON-RPC for the agents of one team"),
    "/teams/{team}/mcp/{agent}": ("POST, GET", "MCP endpoint of an agent; `GET` resumes a stream"),
    "/mcp/{agent}": ("POST, GET", "the same, while the agent's name is unique"),
}
_SCOPE = re.compile(r"`(GET|PUT|POST|DELETE) (/[^` ]*)`")


def endpoints() -> str:
    """The page.

    Raises:
        ValueError: a path is matched that this page does not describe, or the other way round.
    """
    parts = {
        name: table(("method", "path", "does, or answers"), rows) for name, rows in endpoints_of_services().items()
    }
    return with_tables(PAGE, parts)


def endpoints_of_services() -> dict[str, list[Row]]:
    """The method, the path in backticks and what it does, of each endpoint of each service, and of every process.

    Raises:
        ValueError: a path is matched that this page does not describe, or the other way round.
    """
    return {
        "every process": [("GET", f"`{path}`", _EVERY[path]) for path in _same(_EVERY, _matched(with_probes))],
        "agent-gateway": [
            (method, f"`{path}`", does)
            for path, (method, does) in ((it, _GATEWAY[it]) for it in _same(_GATEWAY, _matched(GatewayHttp.__call__)))
        ],
        "registry": _of_fastapi(registry.make_app(MagicMock())),
        "team-lifecycle": _of_fastapi(lifecycle.make_app(MagicMock(algorithm="EdDSA"))),
        "workspaces": _of_fastapi(workspaces.make_api(MagicMock(version="0"))),
        "pipelines": _of_pipelines(),
        "library-search": [
            ("POST", "`/mcp`", "MCP endpoint with the search tools; a bearer says which libraries they read"),
            ("PUT", f"`{DOCUMENTS}/{{library}}?path=…`", "Put a document, the body, into a library."),
            ("DELETE", f"`{DOCUMENTS}/{{library}}/{{document}}`", "Delete a document."),
        ],
        "data-pool": [("WebSocket", f"`{POOL}`", "[data agents](data-agents.md#what-the-two-sides-send) connect here")],
    }


def _of_fastapi(app: FastAPI) -> list[Row]:
    paths: dict[str, dict[str, dict[str, str]]] = app.openapi()["paths"]
    return [
        (method.upper(), f"`{path}`", _first(operation.get("description") or operation["summary"]))
        for path, operations in paths.items()
        for method, operation in operations.items()
    ]


def _first(description: str) -> str:
    """The first sentence, on one line."""
    return re.split(r"(?<=\.)\s", " ".join(description.split()))[0]


def _of_pipelines() -> list[Row]:
    """The rows of the page about pipelines, whose routes are those of the service."""
    executions = ExecutionRoutes(MagicMock(), MagicMock(), MagicMock())
    made: list[Route] = [
        *ProgramRoutes(MagicMock(), MagicMock(), MagicMock()).routes(),
        *RunRoutes(MagicMock(), MagicMock(), MagicMock()).routes(),
        *ModuleRoutes(MagicMock()).routes(),
        *PipelineRoutes(MagicMock(), MagicMock(), MagicMock()).routes(),
        *executions.routes(),
    ]
    served = {(method, _shape(route.path)) for route in made for method in (route.methods or ()) if method != "HEAD"}
    text = (ROOT / DOCS / "pipelines-http.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    rows = [
        (method, path, line.split(" | ")[-1].rstrip(" |")) for line in lines for method, path in _SCOPE.findall(line)
    ]
    shown = [row for row in rows if (row[0], _shape(row[1])) in served]
    if len(shown) != len(served):
        raise ValueError(f"routes that pipelines-http.md lacks: {served - {(row[0], _shape(row[1])) for row in rows}}")
    return [(method, f"`{path}`", does) for method, path, does in shown]


def _shape(path: str) -> str:
    """A path whose parameters have no names."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def _matched(serve: Callable[..., Any]) -> list[str]:
    """The paths that a function matches with the parts of a path, or with the whole."""
    assert isinstance(serve, FunctionType)
    tree = ast.parse(textwrap.dedent(inspect.getsource(serve)))
    cases = [case.pattern for node in ast.walk(tree) if isinstance(node, ast.Match) for case in node.cases]
    return [path for pattern in cases if (path := _path(pattern))]


def _path(pattern: ast.pattern) -> str | None:
    match pattern:
        case ast.MatchValue(ast.Constant(str(path))):
            return path
        case ast.MatchSequence(parts):
            return "".join(f"/{_part(part)}" for part in parts)
        case _:
            return None


def _part(pattern: ast.pattern) -> str:
    match pattern:
        case ast.MatchValue(ast.Constant(str(word))):
            return word
        case ast.MatchAs(name=str(name)):
            return f"{{{name}}}"
        case _:
            raise ValueError(f"a pattern of a path that this page cannot show: {ast.unparse(pattern)}")


def _same(described: Iterable[str], matched: list[str]) -> list[str]:
    if sorted(described) != sorted(matched):
        raise ValueError(f"described are {sorted(described)}, matched {sorted(matched)}")
    return matched
