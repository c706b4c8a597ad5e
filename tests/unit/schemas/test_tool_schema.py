"""Tool schemas and arguments, also hostile ones: which schemas are refused, and how arguments are checked."""

import socket
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.hostile import SCHEMAS, doubling, nested, schemas

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_schemas.parts import Parts
from pallas_schemas.tool_schema import ToolSchema
from pallas_schemas.work import TooMuch, Work

TOO_MUCH = "there is too much in them to check it against the tool's schema"
TOO_MANY = "there are more than 150,000 values in them that the tool's schema checks"
UNEXPLAINED = "they break the tool's schema, and there is too much in them to say where"


def text(**rules: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"text": rules}}


def unevaluated(levels: int, kind: str) -> dict[str, Any]:
    """A schema in which each level runs the one below it again."""
    last: dict[str, Any] = {}
    for _ in range(levels):
        last = {"anyOf": [last], f"unevaluated{kind}": {"type": "integer"}}
    return {"properties": {"a": last}}


def test_nothing_is_fetched_for_a_schema() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        for schema in ({"$ref": address}, text(**{"$ref": address}), {"$id": address, "$ref": "other.json"}):
            with pytest.raises(Rejected, match=r"only a \$ref to a place in the same schema is allowed"):
                ToolSchema(schema)
        with pytest.raises(BlockingIOError):
            server.accept()


REFUSED: list[tuple[dict[str, Any], str]] = [
    (text(pattern="(?=a)b"), "^/properties/text/pattern: the pattern has to be .* without look-around"),
    (text(pattern=r"(a)\1"), "^/properties/text/pattern: the pattern has to be"),
    (text(pattern=r"(?:\w{1000}){1000}"), "^/properties/text/pattern: the pattern has to be .* not too large"),
    (text(pattern="["), "^/properties/text/pattern: the pattern has to be a regular expression"),
    (text(type="strin"), "^/properties/text/type: "),
    ({"required": "text"}, "^/required: "),
    ({"$ref": "#"}, r"a \$ref leads back to itself"),
    ({"$ref": "#/$defs/none"}, r"^/\$ref: there is nothing at '#/\$defs/none'"),
    ({"$ref": "#/odd", "odd": {"properties": 5}}, r"what a \$ref names is no schema"),
    ({"properties": {f"p{number}": {} for number in range(3000)}}, "it has more than 1000 subschemas"),
    ({"properties": {f"p{n}": {"pattern": f"^[a-z]{{{n},2000}}$"} for n in range(100)}}, "too large in total"),
    (nested(500, "not", {}), "Recursion limit"),
]


@pytest.mark.parametrize(("schema", "reason"), REFUSED)
def test_an_unusable_schema_is_refused_with_the_place_and_the_reason(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        ToolSchema(schema)


@pytest.mark.parametrize(
    ("schema", "arguments", "faults"),
    [
        (text(pattern="^(a+)+$"), {"text": "a" * 5000 + "b"}, ["text breaks the rule pattern (^(a+)+$)"]),
        (text(pattern="^(a+)+$"), {"text": "a" * 1_000_000 + "b"}, [TOO_MUCH]),
        (text(pattern="(?:a|b)*a(?:a|b){2500}c"), {"text": "ab" * 100_000}, [TOO_MUCH]),
        ({"patternProperties": {"^(a+)+$": {"type": "integer"}}}, {"a" * 1_000_000: 1}, [TOO_MUCH]),
        (doubling(60), {"text": 7}, [TOO_MUCH]),
        (doubling(16), {"text": 7}, [UNEXPLAINED]),
        ({"properties": {"a": {"$ref": "#"}}}, nested(5000, "a", {}), [TOO_MUCH]),
        ({"properties": {"a": {"anyOf": [{"$ref": "#"}] * 2}}}, nested(90, "a", {}), [TOO_MUCH]),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [nested(3000, "a", {})] * 2}, [UNEXPLAINED]),
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": [7] * 100_000}, [UNEXPLAINED]),
        (text(type="string", format="date"), {"text": "no date"}, []),
        (unevaluated(20, "Properties"), {"a": {"x": 1}}, [TOO_MUCH]),
        (unevaluated(20, "Items"), {"a": [1]}, [TOO_MUCH]),
        (doubling(10, {"not": {"const": [[*range(8000)]]}}), {"text": [[*range(7999), -1]]}, [TOO_MUCH]),
        (doubling(10, {"enum": [[[*range(8000)]]]}), {"text": [[*range(7999), -1]]}, [TOO_MUCH]),
        (doubling(15, {"enum": ["a" * 20_000]}), {"text": "a" * 19_999 + "b"}, [TOO_MUCH]),
        (doubling(10, {"uniqueItems": True}), {"text": [[0] * 2000, [*([0] * 1999), 1]]}, [TOO_MUCH]),
    ],
)
def test_a_check_that_would_take_long_ends_with_a_fault(
    schema: dict[str, Any], arguments: dict[str, Any], faults: list[str]
) -> None:
    assert ToolSchema(schema).faults(arguments) == faults


LARGE: list[tuple[JsonObject, Any, int, list[str]]] = [
    ({"items": {"properties": {"x": {}}}}, {}, 150_000, [TOO_MANY]),
    ({"items": {"properties": {"x": {}}}}, {"x": 1}, 75_000, [TOO_MANY]),
    ({"items": {"properties": {"x": {}}}}, {"x": 1}, 74_000, []),
    ({"$ref": "#/$defs/n"}, [[]], 75_000, [TOO_MANY]),
    ({"additionalProperties": {"pattern": "x"}}, 0, 150_000, [TOO_MANY]),
    ({"additionalProperties": {}}, 0, 200_000, []),
    ({"items": {"type": "integer"}}, 0, 1_000_000, []),
    ({"items": {}}, 0, 1_000_000, []),
    ({"items": {}}, 0, 5_000_000, [TOO_MUCH]),
    ({"type": "array"}, [], 6_000_000, []),
]


@pytest.mark.parametrize(("schema", "inner", "count", "faults"), LARGE)
def test_values_are_counted_where_their_content_matters(
    schema: JsonObject, inner: Any, count: int, faults: list[str]
) -> None:
    tool = ToolSchema({"$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}, "properties": {"a": schema}})
    of_fields = "additionalProperties" in schema
    assert tool.faults({"a": {str(n): inner for n in range(count)} if of_fields else [inner] * count}) == faults


class Unread(list[Any]):
    """A list with a length, whose items nobody may read."""

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, position: Any) -> Any:
        raise AssertionError("an item is read")


@pytest.mark.parametrize(
    ("schema", "items", "visits"),
    [
        ({"items": {}}, 1_000_000, 1_000_003),
        ({"items": True}, 1_000_000, 1_000_004),
        ({"items": {"type": "integer"}}, 1_000_000, 2_000_004),
        ({"type": "array"}, 8_000_000, 4),
        ({"items": {"type": "integer"}}, 8_000_000, None),
        ({"items": {"properties": {"x": {}}}}, 150_000, None),
    ],
)
def test_the_count_reads_no_item_on_which_all_work_is_the_same_and_none_of_too_many(
    schema: JsonObject, items: int, visits: int | None
) -> None:
    work = Work(Parts({"properties": {"a": schema}}, lambda _pattern, _place: 1))
    with pytest.raises(TooMuch) if visits is None else nullcontext():
        assert work.of({"a": Unread([0] * items)}, 5_000_000) == visits


def test_large_arguments_of_a_plain_schema_are_checked_and_their_fault_is_named() -> None:
    schema = ToolSchema({"properties": {"text": {"type": "string"}, "rows": {"type": "array"}}, "required": ["id"]})
    large = {"text": "x" * 12_000_000, "rows": [{"n": number} for number in range(10_000)]}
    assert schema.faults({**large, "id": 1}) == []
    assert schema.faults({"text": large["text"]}) == ["arguments: 'id' is required"]


def test_a_recursive_schema_checks_a_tree_at_every_depth() -> None:
    node = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "additionalProperties": False}
    tree: dict[str, Any] = {}
    for _ in range(12):
        tree = {"left": tree, "right": tree}
    assert ToolSchema(node).faults(tree) == []
    assert ToolSchema(node).faults({"left": {"odd": 1}}) == ["left: unknown field 'odd'"]


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "text", "b" * 5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "text"]), inner, max_size=2),
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(schema=schemas, arguments=st.dictionaries(st.sampled_from(["a", "text"]), values, max_size=2))
def test_arguments_are_judged_as_by_the_jsonschema_library(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    try:
        compiled = ToolSchema(schema)
    except Rejected:
        return
    faults = compiled.faults(arguments)
    assume(faults != [TOO_MUCH] and schema not in SCHEMAS)
    other: Any = Draft202012Validator({name: value for name, value in schema.items() if name != "$id"})
    assert (faults == []) == other.is_valid(arguments)


def test_a_schema_may_name_an_anchor_that_nothing_refers_to() -> None:
    schema: JsonObject = {
        "$defs": {"x": {"$anchor": "x", "type": "string"}},
        "properties": {"y": {"$ref": "#/$defs/x"}},
    }
    assert ToolSchema(schema).faults({"y": "text"}) == []
    assert ToolSchema(schema).faults({"y": 1}) == ["y must be of type string"]
