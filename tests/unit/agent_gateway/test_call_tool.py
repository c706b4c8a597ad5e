"""How the arguments of a call are checked: what is dropped, what is refused, and with which message."""

import asyncio
from typing import Any

import pytest
from tests.builders import agent_definition

from pallas_contracts.agents import JsonObject, ToolDefinition
from pallas_contracts.errors import NotFound
from pallas_turns.model import Refusal
from pallas_turns.submit import ToolSchemas, find_tool

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "maxLength": 40},
        "images": {"type": "array", "items": {"type": "object", "required": ["data", "mime_type"]}},
        "history": {"type": "array"},
        "mood": {"enum": ["calm", "curious"]},
    },
    "required": ["message"],
    "additionalProperties": False,
}

PRIVATE = "a-very-private-value"


def check(arguments: dict[str, Any], schema: JsonObject = SCHEMA) -> JsonObject | Refusal:
    """Check arguments of a tool `harper` with that schema."""
    tool = ToolDefinition(name="harper", input_schema=schema)
    return asyncio.run(ToolSchemas("demo/harper").check(tool, arguments))


def test_arguments_that_fit_are_passed_on_unchanged() -> None:
    given = {"message": "hi", "history": ["anything", 1, None], "mood": "calm"}
    assert check(given) == given


def test_null_for_an_optional_argument_counts_as_absent() -> None:
    assert check({"message": "hi", "images": None, "history": None}) == {"message": "hi"}


def test_null_for_an_unknown_argument_counts_as_absent() -> None:
    assert check({"message": "hi", "later": None}) == {"message": "hi"}


def test_null_for_a_required_argument_is_refused() -> None:
    refused = check({"message": None})
    assert isinstance(refused, Refusal)
    assert "message must be of type string" in refused.message


def test_null_inside_an_argument_is_kept() -> None:
    assert check({"message": "hi", "history": [None]}) == {"message": "hi", "history": [None]}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "arguments: 'message' is required"),
        ({"message": 7}, "message must be of type string"),
        ({"message": "hi", "colour": PRIVATE}, "arguments: unknown field 'colour'"),
        ({"message": "hi", "images": [{"data": PRIVATE}]}, "images/0: 'mime_type' is required"),
        ({"message": "hi", "mood": PRIVATE}, "mood breaks the rule enum (['calm', 'curious'])"),
        ({"message": PRIVATE * 3}, "message breaks the rule maxLength (40)"),
        ({"message": "hi", "images": PRIVATE}, "images must be of type array"),
    ],
    ids=["missing", "type", "unknown", "nested", "enum", "length", "list"],
)
def test_a_fault_names_the_field_and_never_repeats_its_value(arguments: dict[str, Any], sentence: str) -> None:
    refused = check(arguments)
    assert isinstance(refused, Refusal)
    assert refused.code == "invalid_arguments"
    assert sentence in refused.message
    assert PRIVATE not in refused.message


def test_a_refusal_names_at_most_five_faults() -> None:
    schema: JsonObject = {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(8)}}
    refused = check({f"f{n}": n for n in range(8)}, schema)
    assert isinstance(refused, Refusal)
    assert refused.message.count("must be of type string") == 5


def test_a_long_rule_is_cut_short() -> None:
    schema: JsonObject = {"type": "object", "properties": {"x": {"enum": ["word"] * 200}}}
    refused = check({"x": "other"}, schema)
    assert isinstance(refused, Refusal)
    assert len(refused.message) < 200


def test_a_tool_is_found_by_its_name_and_by_an_alias() -> None:
    tool = ToolDefinition(name="harper", aliases=("send_message",))
    definition = agent_definition("demo", tools=(tool,))
    assert find_tool(definition, "harper") == find_tool(definition, "send_message") == tool


def test_an_unknown_tool_is_not_found() -> None:
    with pytest.raises(NotFound) as missing:
        find_tool(agent_definition("demo"), "nope")
    assert (missing.value.code, missing.value.message) == ("unknown_tool", "Unknown tool: 'nope'")
