"""Types as data agents write them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_pool.registering.shapes import MOST_LEVELS, Shape, ShapeFault, schema_of, shape_of
from pallas_schemas.tool_schema import ToolSchema

WORDS = ("any", "string", "integer", "number", "boolean", "null", "object", "bytes", "datetime", "date")

words = st.sampled_from((*WORDS, "list", "map", "tuple")).map(Shape)
names = st.from_regex(r"[a-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)


def _larger(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    fields = st.dictionaries(names, inner, max_size=3)
    one = st.one_of(
        inner.map(lambda item: Shape("list", (item,))),
        inner.map(lambda value: Shape("map", (Shape("string"), value))),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: Shape("tuple", tuple(each))),
        fields.map(lambda found: Shape("fields", tuple(found.values()), tuple(found))),
    )
    bare = inner.filter(lambda shape: shape.word not in ("or", "optional"))
    return st.one_of(
        one,
        bare.map(lambda some: Shape("optional", (some,))),
        st.lists(bare, min_size=2, max_size=3).map(lambda each: Shape("or", tuple(each))),
    )


shapes = st.recursive(words, _larger, max_leaves=8)


def written(shape: Shape) -> str:
    """The type as an agent could write it."""
    of = [written(each) for each in shape.of]
    match shape.word:
        case "fields":
            return "{" + ", ".join(f"{name}: {each}" for name, each in zip(shape.names, of, strict=True)) + "}"
        case "or":
            return " | ".join(of)
        case "optional":
            return f"{of[0]}?"
        case word:
            return f"{word}[{', '.join(of)}]" if of else word


@given(shapes)
def test_a_type_that_is_written_is_read_as_the_same_type(shape: Shape) -> None:
    assert shape_of(written(shape)) == shape


@given(shapes)
def test_every_type_is_a_json_schema(shape: Shape) -> None:
    ToolSchema({"type": "object", "properties": {"x": schema_of(shape)}})


@given(st.one_of(st.text(), st.text("[]{}|?,: \tlistmapnyx09_-", max_size=40)))
def test_any_text_is_read_or_refused_with_a_column(text: str) -> None:
    try:
        shape_of(text)
    except ShapeFault as fault:
        [reason] = fault.faults.values()
        column = int(reason.removeprefix("column ").partition(":")[0])
        assert 1 <= column <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("string", {"type": "string"}),
        (" Str ", {"type": "string"}),
        ("list[float]", {"type": "array", "items": {"type": "number"}}),
        ("list[list[float]]", {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}),
        ("array", {"type": "array"}),
        ("dict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("dict", {"type": "object"}),
        ("optional[int]", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("int?", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("int??", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("int | none", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("json", {}),
        ("bytes", {"type": "string", "contentEncoding": "base64"}),
        (
            "tuple[datetime, double]",
            {
                "type": "array",
                "prefixItems": [{"type": "string", "format": "date-time"}, {"type": "number"}],
                "minItems": 2,
                "items": False,
            },
        ),
        ("{a: int, b: int?}", {"type": "object", "required": ["a"]}),
    ],
)
def test_types_are_these_json_schemas(text: str, schema: dict[str, Any]) -> None:
    found = schema_of(shape_of(text))
    found.pop("properties", None)
    assert found == schema


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "column 1: a type is missing"),
        ("list[flot]", "column 6: 'flot' is no type"),
        ("list[", "column 6: a type is missing"),
        ("list[int", "column 9: ']' is expected, not 'the end'"),
        ("int]", "column 4: ']' is not expected"),
        ("int, int", "column 4: ',' is not expected"),
        ("string[int]", "column 1: string does not have 1 types in brackets"),
        ("map[int, int]", "column 1: the keys of map must be strings"),
        ("map[string]", "column 1: map does not have 1 types in brackets"),
        ("optional", "column 1: optional does not have 0 types in brackets"),
        ("int  %", "column 6: '%' is not expected"),
        ("{a: int, a: int}", "column 10: the name of a field is expected, each once"),
        ("list[" * 40 + "int" + "]" * 40, f"column 166: has more than {MOST_LEVELS} levels"),
        ("x" * 2001, "has more than 2000 characters"),
        (3, "must be a type, such as string or list[float]"),
    ],
)
def test_what_is_no_type_is_refused_with_the_column(text: Any, reason: str) -> None:
    with pytest.raises(ShapeFault) as fault:
        shape_of(text)
    assert fault.value.faults == {(): reason}


def test_all_faults_of_an_object_are_found() -> None:
    with pytest.raises(ShapeFault) as fault:
        shape_of({"a": "int", "b": {"c": "flot", "d": 1}, "e": "list["})
    assert list(fault.value.faults) == [("b", "c"), ("b", "d"), ("e",)]


def test_an_object_may_not_be_nested_without_end() -> None:
    nested: Any = "int"
    for _ in range(200):
        nested = {"x": nested}
    with pytest.raises(ShapeFault):
        shape_of(nested)
