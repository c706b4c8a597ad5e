"""The options of `pallas call` are made of a tool's schema, and answers are tables and lines."""

from typing import Any

import pytest
from mcp_types import Tool

from pallas_cli.calling import document_of, refusal_of
from pallas_cli.commands.call import read_arguments
from pallas_cli.refused import WrongUsage

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "agent_name": {"type": "string", "description": "Whom."},
        "count": {"type": ["integer", "null"]},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "kind": {"enum": ["a", "b"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "filter": {"type": "object"},
        "any": True,
        "agent-name": {"type": "integer"},
        "help": {"type": "string"},
        "$odd": {"type": "string"},
    },
    "required": ["agent_name"],
}
NAME = ("--agent-name", "x")


def read(*words: str, schema: dict[str, Any] = SCHEMA) -> dict[str, Any]:
    """What a call with these words sends."""
    return read_arguments(Tool(name="do", input_schema=schema), "pallas call team/agent do", words)[0]


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        ((), {}),
        (("--count", "3", "--ratio", "0.5"), {"count": 3, "ratio": 0.5}),
        (("--deep",), {"deep": True}),
        (("--no-deep", "--kind", "b"), {"deep": False, "kind": "b"}),
        (("--tags", "one", "--tags", "two"), {"tags": ["one", "two"]}),
        (("--filter", '{"a": [1]}', "--any", "[2]", "--yes"), {"filter": {"a": [1]}, "any": [2]}),
    ],
    ids=str,
)
def test_options_become_the_arguments_of_the_schema(words: tuple[str, ...], sent: dict[str, Any]) -> None:
    assert read(*NAME, *words) == {"agent_name": "x", **sent}


def test_one_json_object_is_sent_as_it_is() -> None:
    assert read('{"agent_name": "x", "$odd": "y", "more": 1}', "--json") == {"agent_name": "x", "$odd": "y", "more": 1}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "Missing option '--agent-name'"),
        ((*NAME, "--count", "many"), "Invalid value for '--count'"),
        ((*NAME, "--kind", "c"), "Invalid value for '--kind'"),
        ((*NAME, "--colour", "red"), "No such option: --colour"),
        ((*NAME, "--filter", "{"), "--filter is not JSON"),
        (("{",), "the input is not JSON"),
    ],
    ids=str,
)
def test_words_that_do_not_fit_name_the_option(words: tuple[str, ...], error: str) -> None:
    with pytest.raises(WrongUsage, match=error):
        read(*words)


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": 1}, "required": "a"}], ids=str)
def test_a_schema_that_is_none_makes_no_required_options(schema: dict[str, Any]) -> None:
    assert read(schema=schema) == {}


def test_a_property_may_be_named_like_an_option_of_every_tool() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"yes": {"type": "string"}, "json": {"type": "integer"}}}
    assert read("--yes", "no", "--json", "3", schema=schema) == {"yes": "no", "json": 3}


def test_an_error_document_is_a_sentence_with_its_code_and_faults() -> None:
    error = refusal_of(
        '{"error": "bad", "message": "No.", "details": {"status": 400, "validations": [{"field": "f", "detail": "d"}]}}'
    )
    assert (error.lines, error.word, error.details["status"]) == (("No. (400)", "  f: d"), "bad", 400)
    assert refusal_of("{broken").lines == ("{broken",)
    assert document_of("12") is None
