"""Published pipelines as tools of an agent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.pipelines.stored import a_stored_pipeline

from pallas_contracts.errors import Conflict, Rejected
from pallas_contracts.pipelines import Publication, StoredPipeline, UsedModule
from pallas_contracts.turns import Principal
from pipelines.storing import publishing
from pipelines.storing.publishing import by_tool, check_published, check_tool_name, published_definition

LARGE = 1_000_000
BEGIN = datetime(2026, 11, 23, tzinfo=UTC)


def published(tool: str, *uses: str, name: str | None = None, day: int = 1, **fields: Any) -> StoredPipeline:
    """A pipeline that is published as a tool, and calls the tools of others."""
    modules = tuple(UsedModule(name=f"pipelines.published.{each}", signature=each) for each in uses)
    said = Publication(tool=tool, description=f"Does {tool}.", by=Principal(), at=BEGIN + timedelta(days=day))
    return a_stored_pipeline(name or tool, published=said, modules=modules, **fields)


def test_the_schemas_of_a_tool_are_made_from_inputs_and_outputs() -> None:
    types = {"title": "String", "limit": "Optional<Int>"}
    entry = published("find", inputs=types, outputs={"found": "List<{ id: Int }>", "odd": "{ a b: Int }"})
    definition = published_definition([entry, a_stored_pipeline("private")])
    assert (definition.team, definition.agent, definition.kind, definition.retry) == (
        "pipelines",
        "published",
        "pipeline",
        "safe",
    )
    assert (definition.limits.turn_timeout, definition.limits.max_attempts) == (3600, 100)
    [tool] = definition.tools
    assert (tool.name, tool.description, tool.annotations) == ("find", "Does find.", None)
    assert tool.input_schema["required"] == ["title"]
    assert tool.input_schema["properties"]["title"] == {"type": "string"}
    assert tool.output_schema is not None
    assert tool.output_schema["properties"]["found"]["items"]["properties"] == {"id": {"type": "integer"}}
    assert tool.output_schema["properties"]["odd"] == {}


def test_of_two_pipelines_with_the_same_tool_the_first_has_it() -> None:
    late, early = published("find", name="a", day=2), published("find", name="b", day=1)
    assert by_tool([late, early])["find"].name == early.name
    assert len(published_definition([late, early]).tools) == 1
    with pytest.raises(Conflict, match="'find'") as refused:
        check_published(late, [early], largest=LARGE)
    assert refused.value.code == "tool_taken"
    check_published(early, [early], largest=LARGE)


@pytest.mark.parametrize(
    ("entry", "others", "way"),
    [
        (published("a", "a"), [], "a -> a"),
        (published("a", "b"), [published("b", "a")], "a -> b -> a"),
        (published("a", "b", "c"), [published("b", "d"), published("c", "b", "a")], "a -> c -> a"),
    ],
)
def test_a_circle_is_refused_with_its_way(entry: StoredPipeline, others: list[StoredPipeline], way: str) -> None:
    with pytest.raises(Rejected, match=f"E031: .* circle: {way}") as refused:
        check_published(entry, [*others, published("z", "z", "a")], largest=LARGE)
    assert refused.value.code == "E031"


def test_calls_without_a_circle_are_accepted_and_what_is_not_published_is_not_checked() -> None:
    check_published(published("a", "b", "c", "gone"), [published("b", "c"), published("c")], largest=LARGE)
    check_published(a_stored_pipeline("x"), [published("a", "a")], largest=0)


def test_what_is_too_large_for_a_tool_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "List<" * 70 + "Int" + ">" * 70
    with pytest.raises(Rejected, match="cannot be a tool") as rejected:
        check_published(published("a", inputs={"x": deep}), [], largest=LARGE)
    assert rejected.value.code == "bad_tool"
    assert published_definition([published("a", inputs={"x": deep})]).tools == ()
    with pytest.raises(Conflict, match="too large types"):
        check_published(published("a"), [], largest=100)
    monkeypatch.setattr(publishing, "MOST_PUBLISHED", 1)
    with pytest.raises(Conflict, match="1 pipelines are published already"):
        check_published(published("a"), [published("b")], largest=LARGE)


@pytest.mark.parametrize("tool", ["find", "_x", "a-b", "A1", "n" * 64])
def test_names_of_tools(tool: str) -> None:
    check_tool_name(tool)


@pytest.mark.parametrize("tool", ["", "1a", "-a", "a.b", "a b", "get_health", "match", "n" * 65, "ü"])
def test_what_is_no_name_of_a_tool(tool: str) -> None:
    with pytest.raises(Rejected, match="name of a tool"):
        check_tool_name(tool)
