"""The tools as a stateless MCP server, for all protocol revisions.

A tool knows nothing of its caller but the libraries that the caller may read.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel
from starlette.requests import Request

from library_search.handlers import answers, arguments
from library_search.handlers.arguments import Arguments, parse, schema_of
from library_search.handlers.read import (
    get_chunk,
    get_document,
    get_health,
    list_collections,
    list_items,
    list_libraries,
    search,
)
from library_search.metrics import Metrics
from library_search.model import Readable
from library_search.store.queries import Queries
from pallas_contracts.errors import PallasError, Unavailable, find_error

log = logging.getLogger(__name__)

WAIT_SECONDS = 5.0


class PerCaller:
    """Admits `at_once` calls of each caller. Further calls wait."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def slot(self, caller: str) -> AsyncGenerator[None]:
        """Wait for a slot of the caller and hold it in the block.

        Raises:
            Unavailable: none was free within `WAIT_SECONDS`.
        """
        slots = self._slots.get(caller)
        if slots is None:
            slots = self._slots[caller] = asyncio.Semaphore(self._at_once)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await slots.acquire()
        except TimeoutError as error:
            raise Unavailable("this caller has too many calls under way; try again", code="busy") from error
        try:
            yield
        finally:
            slots.release()


type Context = ServerRequestContext[Any, Request]

READABLE, CALLER = "readable", "caller"
"""Keys of the request's state: the libraries that the caller may read, and the caller, which tools do not see."""

ERROR_META = "pallas/error"
_LIST = CacheHint(5_000, "public")
_CACHE_HINTS: dict[CacheableMethod, CacheHint] = {"server/discover": _LIST, "tools/list": _LIST}


@dataclass(frozen=True, slots=True)
class Tool[A: Arguments]:
    """A tool: its arguments, its answer, and the function that runs it."""

    name: str
    title: str
    description: str
    arguments: type[A]
    answer: type[BaseModel]
    run: Callable[[A, Readable], Awaitable[BaseModel]]
    limited: bool = True
    """Whether calls count towards the limit of their caller."""

    async def call(self, given: Mapping[str, Any], readable: Readable) -> BaseModel:
        """Run the tool.

        Raises:
            PallasError: the caller gets it as a tool error.
        """
        return await self.run(parse(self.arguments, given), readable)

    def described(self) -> types.Tool:
        """The tool as MCP lists it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema={**schema_of(self.arguments), "type": "object"},
            output_schema=schema_of(self.answer),
            annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )


class ToolServer:
    """Serves the tools."""

    def __init__(self, tools: Sequence[Tool[Any]], metrics: Metrics, per_caller: PerCaller) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._listed = types.ListToolsResult(tools=[tool.described() for tool in tools])
        self._schemas = {tool.name: tool.input_schema for tool in self._listed.tools}
        self._seconds = metrics.tool_seconds
        self._per_caller = per_caller
        self.server = Server[Any](
            "library-search",
            version="0.1.0",
            title="Library search",
            description="Searches the libraries that the caller may read.",
            cache_hints=_CACHE_HINTS,
            get_tool_input_schema=self._schemas.get,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def _list_tools(self, _context: Context, _params: object) -> types.ListToolsResult:
        return self._listed

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name[:100]}")
        began, outcome = time.perf_counter(), "answered"
        try:
            assert context.request is not None, "calls come over HTTP"
            state = context.request.scope["state"]
            async with self._per_caller.slot(state[CALLER]) if tool.limited else nullcontext():
                answer = await tool.call(params.arguments or {}, state[READABLE])
        except PallasError as error:
            outcome = error.code if error.kind in ("unavailable", "internal") else error.kind
            return tool_error(error)
        except Exception as error:
            outcome = "internal"
            log.exception("a tool failed", extra={"tool": params.name})
            return tool_error(find_error(error) or PallasError("internal error"))
        finally:
            self._seconds.labels(tool.name, outcome).observe(time.perf_counter() - began)
        content = answer.model_dump(mode="json")
        text = types.TextContent(text=json.dumps(content, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=content)


def tool_error(error: PallasError) -> types.CallToolResult:
    """An error as a tool result, with its code in `_meta`."""
    facts: dict[str, Any] = {"code": error.code, "retryable": error.kind == "unavailable"}
    if "field" in error.facts:
        facts["field"] = error.facts["field"]
    return types.CallToolResult(
        content=[types.TextContent(text=f"{error.code}: {error.message}")], is_error=True, _meta={ERROR_META: facts}
    )


type Handler[A: Arguments] = Callable[[A, Readable, Queries], Awaitable[BaseModel]]


def make_tools(
    queries: Queries, database: Callable[[], str | None], changes: Callable[[], str | None]
) -> tuple[Tool[Any], ...]:
    """All tools. `database` and `changes` say what is wrong with the database and with the changes of libraries."""

    def queried[A: Arguments](handler: Handler[A]) -> Callable[[A, Readable], Awaitable[BaseModel]]:
        async def run(asked: A, readable: Readable) -> BaseModel:
            return await handler(asked, readable, queries)

        return run

    async def health(_asked: arguments.GetHealth, _readable: Readable) -> BaseModel:
        return await get_health(database, changes)

    return (
        Tool(
            "search",
            "Search the libraries",
            "Searches the libraries that you may read for passages. Returns the best first.",
            arguments.Search,
            answers.Found,
            queried(search),
        ),
        Tool(
            "get_document",
            "Read a document",
            "Returns the text of a document, a part at a time, with its library, collection and path.",
            arguments.GetDocument,
            answers.DocumentAnswer,
            queried(get_document),
        ),
        Tool(
            "get_chunk",
            "Read a passage",
            "Returns the full text of a passage and, on request, of its neighbours.",
            arguments.GetChunk,
            answers.ChunkAnswer,
            queried(get_chunk),
        ),
        Tool(
            "list_libraries",
            "List the libraries",
            "Lists the libraries that you may read.",
            arguments.ListLibraries,
            answers.LibraryList,
            queried(list_libraries),
        ),
        Tool(
            "list_collections",
            "List collections",
            "Lists the collections of the libraries that you may read.",
            arguments.ListCollections,
            answers.CollectionList,
            queried(list_collections),
        ),
        Tool(
            "list_items",
            "List documents",
            "Lists the documents of the libraries that you may read.",
            arguments.ListItems,
            answers.ItemList,
            queried(list_items),
        ),
        Tool(
            "get_health",
            "Health",
            "Returns the health of this service and its dependencies.",
            arguments.GetHealth,
            answers.Health,
            health,
            limited=False,
        ),
    )
