"""The list of tools."""

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from library_search.handlers import answers, arguments
from library_search.handlers.arguments import Arguments
from library_search.handlers.get_health import get_health
from library_search.handlers.list_contents import list_collections, list_items, list_libraries
from library_search.handlers.read_documents import get_chunk, get_document
from library_search.handlers.search import search
from library_search.mcp.tool_server import Tool
from library_search.model import Readable
from library_search.store.queries import Queries

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
