"""The answers of the tools to a caller with libraries."""

from typing import Any

import pytest
from tests.integration.library_search.lab import Era, Search, StandIn, Truth

from pallas_contracts.message import utc_now

CATS = "# Cats\n\nCats sleep most of the day.\n\n## Food\n\nThey hunt mice.\n"
DOGS = "# Dogs\n\nDogs chase cats and mice.\n"

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])


@pytest.fixture
async def ann(search: Search, truth: Truth, callers: StandIn) -> str:
    """A caller that may read `animals` and `empty`, and not `secret`."""
    for uid in ("animals", "empty", "secret"):
        await truth.publish("created", uid)
    callers.libraries["ann"] = ("animals", "empty")
    await search.document("animals", "pets/cats.md", CATS, collection="pets")
    await search.document("animals", "pets/dogs.md", DOGS, collection="pets")
    await search.document("secret", "cats.md", "Cats rule the world.")
    return "ann"


@ERAS
async def test_every_tool_is_listed_with_its_input_and_output_schemas(search: Search, ann: str, era: Era) -> None:
    async with search.client(ann, era) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [
        *("search", "get_document", "get_chunk", "list_libraries", "list_collections", "list_items", "get_health")
    ]
    for tool in tools:
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is not None


@ERAS
async def test_a_search_matches_inflected_forms_of_words(search: Search, ann: str, era: Era) -> None:
    found = await search.call(ann, "search", era, query="sleeping cat")
    [passage] = found["results"]
    assert (passage["library"], passage["library_name"], passage["collection"]) == ("animals", "Animals", "pets")
    assert (passage["title"], passage["heading"], passage["path"]) == ("Cats", "Cats", "pets/cats.md")
    assert "**Cats** **sleep** most of the day." in passage["text"]
    assert found["next_offset"] is None


async def test_a_query_supports_phrases_exclusions_and_alternatives(search: Search, ann: str) -> None:
    cats, dogs = "pets/cats.md", "pets/dogs.md"
    wanted = {
        "mice": [cats, dogs],
        "mice -dogs": [cats],
        "mice -dog": [cats],
        'mice -"hunt mice"': [dogs],
        '"chase cats"': [dogs],
        '"cats chase"': [],
        "hunt or chase": [cats, dogs],
        "hunt chase": [],
        "the": [cats],
        "zebra": [],
        "' | & ! ( ) : * <-> of \\": [cats],
    }
    found = {query: (await search.call(ann, "search", query=query))["results"] for query in wanted}
    assert {query: sorted({each["path"] for each in passages}) for query, passages in found.items()} == wanted


async def test_results_are_ordered_by_score_across_pages(search: Search, ann: str) -> None:
    everything = (await search.call(ann, "search", query="cats or mice or dogs"))["results"]
    scores = [passage["score"] for passage in everything]
    assert scores == sorted(scores, reverse=True)
    assert len(everything) == 3
    pages: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        page = await search.call(ann, "search", query="cats or mice or dogs", limit=1, offset=offset)
        pages += page["results"]
        offset = page["next_offset"]
    assert pages == everything


async def test_a_search_can_be_narrowed_to_libraries_and_collections(search: Search, ann: str) -> None:
    await search.document("empty", "a.txt", "More about cats.")

    async def paths(**only: Any) -> set[str]:
        return {passage["path"] for passage in (await search.call(ann, "search", query="cats", **only))["results"]}

    assert await paths() == {"pets/cats.md", "pets/dogs.md", "a.txt"}
    assert await paths(libraries=["empty"]) == {"a.txt"}
    assert await paths(collection="pets") == {"pets/cats.md", "pets/dogs.md"}
    assert await paths(libraries=["secret", "nowhere"]) == set()
    assert await paths(libraries=[]) == set()
    assert await paths(collection="nothing") == set()


@ERAS
async def test_a_document_is_read_in_parts(search: Search, ann: str, era: Era) -> None:
    [passage, *_] = (await search.call(ann, "search", era, query="sleep"))["results"]
    document = await search.call(ann, "get_document", era, document=passage["document"])
    assert document["text"] == CATS
    assert (document["title"], document["media_type"], document["characters"]) == ("Cats", "text/markdown", len(CATS))
    assert (document["chunks"], document["offset"], document["next_offset"]) == (2, 0, None)
    first = await search.call(ann, "get_document", document=passage["document"], limit=10)
    rest = await search.call(ann, "get_document", document=passage["document"], offset=first["next_offset"])
    assert first["text"] + rest["text"] == CATS
    behind = await search.call(ann, "get_document", document=passage["document"], offset=10**6)
    assert (behind["text"], behind["next_offset"]) == ("", None)


async def test_a_chunk_is_read_with_its_neighbours(search: Search, ann: str) -> None:
    [passage] = (await search.call(ann, "search", query="hunt"))["results"]
    alone = await search.call(ann, "get_chunk", chunk=passage["chunk"])
    assert [chunk["text"] for chunk in alone["chunks"]] == ["## Food\n\nThey hunt mice."]
    assert alone["chunks"][0]["heading"] == "Cats > Food"
    both = await search.call(ann, "get_chunk", chunk=passage["chunk"], before=3, after=3)
    assert [chunk["start"] for chunk in both["chunks"]] == [0, CATS.index("## Food")]
    assert both["path"] == "pets/cats.md"


@ERAS
async def test_libraries_collections_and_items_are_listed_with_counts(search: Search, ann: str, era: Era) -> None:
    libraries = await search.call(ann, "list_libraries", era)
    assert libraries["libraries"] == [
        {"library": "animals", "name": "Animals", "collections": 1, "documents": 2},
        {"library": "empty", "name": "Empty", "collections": 0, "documents": 0},
    ]
    collections = await search.call(ann, "list_collections", era)
    assert collections["collections"] == [{"library": "animals", "collection": "pets", "documents": 2}]
    items = await search.call(ann, "list_items", era, library="animals")
    assert [item["path"] for item in items["items"]] == ["pets/cats.md", "pets/dogs.md"]
    assert all("text" not in item for item in items["items"])
    assert (await search.call(ann, "list_items", library="secret"))["items"] == []
    assert (await search.call(ann, "list_collections", library="secret"))["collections"] == []
    assert (await search.call(ann, "list_items", collection="none"))["items"] == []


@pytest.mark.parametrize("tool", ["list_libraries", "list_collections", "list_items"])
async def test_lists_continue_after_their_cursor(search: Search, ann: str, tool: str) -> None:
    await search.document("empty", "ü,\"'.txt", "One more.", collection="ü,\"'")
    [name] = {"libraries", "collections", "items"} & set(everything := await search.call(ann, tool))
    lines: list[Any] = []
    cursor: str | None = None
    for _ in everything[name]:
        page = await search.call(ann, tool, limit=1, cursor=cursor)
        lines += page[name]
        cursor = page["next_cursor"]
    assert cursor is None
    assert lines == everything[name]


@ERAS
async def test_health_has_the_fields_that_agents_report(search: Search, ann: str, era: Era) -> None:
    health = await search.call(ann, "get_health", era)
    assert (health["status"], health["message"]) == ("ok", None)
    assert health["timestamp"][:4] == str(utc_now().year)


@ERAS
async def test_bad_arguments_are_a_tool_error_that_names_the_field(search: Search, ann: str, era: Era) -> None:
    async with search.client(ann, era) as client:
        result = await client.call_tool("search", {"query": "x", "limit": 51})
        also = await client.call_tool("search", {"query": "?!"})
    assert result.is_error
    [block] = result.content
    assert block.type == "text"
    assert block.text == "bad_arguments: limit: must be less than or equal to 50"
    facts = {"code": "bad_arguments", "retryable": False, "field": "limit"}
    assert (result.meta or {})["pallas/error"] == facts
    assert (also.meta or {})["pallas/error"]["field"] == "query"


async def test_an_optional_argument_may_be_null(search: Search, ann: str) -> None:
    found = await search.call(ann, "search", query="sleep", libraries=None, collection=None, limit=None)
    assert len(found["results"]) == 1
