"""The bounds of definitions, and how one that breaks them is read."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.hostile import definitions, nested

from health_monitor.judging.fold import Evidence, fold
from health_monitor.judging.needs import model_key, needs_of
from pallas_contracts.agents import LARGEST_DEFINITION, AgentDefinition, read_definition
from pallas_contracts.ids import is_token
from registry.listing import compile_listing

IDS = {"team": "demo", "agent": "harper"}
TEXT = {"type": "text", "text": "hello"}
GOOD = {**IDS, "title": "Harper", "updated_at": "2026-01-01T00:00:00Z"}


def read(**fields: Any) -> AgentDefinition:
    return read_definition(IDS, json.dumps(GOOD | fields).encode())


def tool(**fields: Any) -> dict[str, Any]:
    return {"tools": [{"name": "say", **fields}]}


def prompt(**fields: Any) -> dict[str, Any]:
    return {"prompts": [{"name": "ask", **fields}]}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"port": 70_000}, "port: Input should be less than or equal to 65535"),
        ({"port": 1023}, "port: Input should be greater than or equal to 1024"),
        ({"title": "x" * 1001}, "title: String should have at most 1000 characters"),
        ({"updated_at": "2026-01-01T00:00:00"}, "updated_at: Input should have timezone info"),
        ({"updated_at": "9999-12-31T23:59:59-23:00"}, "updated_at: must be a time between the years 1970 and 8999"),
        ({"icons": [{"src": "http://["}]}, "icons.0.src: is no address"),
        ({"model": {"provider": "p", "model": "m", "key": "a b"}}, "model.key: String should match pattern"),
        ({"limits": {"turn_timeout": 1e300}}, "limits.turn_timeout: Input should be less than or equal to"),
        ({"agents": ["a"] * 501}, "agents: Tuple should have at most 500 items"),
        (tool(input_schema=nested(70, "not", {})), "tools.0.input_schema: has more than 64 levels"),
        (tool(input_schema={"enum": list(range(20_000))}), "tools.0.input_schema: has more than 10000 values"),
        (tool(meta={"x": "x" * 20_001}), "tools.0.meta: has a text of more than 20000 characters"),
        (tool(meta={"x": 10**30}), "tools.0.meta: has a text of more than 20000 characters, or a number that is too"),
        (tool(icons=[{"src": 5}]), "tools.0.icons.0: src: Input should be a valid string"),
        (tool(icons=[{"src": "a", "theme": "blue"}]), "tools.0.icons.0: theme: Input should be 'light' or 'dark'"),
        (
            tool(annotations={"readOnlyHint": "perhaps"}),
            "tools.0.annotations: readOnlyHint: Input should be a valid",
        ),
        (tool(input_schema={"type": "string"}), "tools.0.input_schema: type: Input should be 'object'"),
        (tool(input_schema={"required": [["a"]]}), "tools.0.input_schema: required.0: Input should be a valid string"),
        (tool(output_schema={"properties": {"a": 5}}), "tools.0.output_schema: properties.a.dict[str,any]: Input sho"),
        (prompt(arguments=[{"name": 5}]), "prompts.0.arguments.0: name: Input should be a valid string"),
        (prompt(arguments=[{}]), "prompts.0.arguments.0: name: Field required"),
        (prompt(messages=[{"role": "zzz", "content": TEXT}]), "prompts.0.messages.0: role: Input should be 'user' or "),
        (prompt(messages=[{"role": "user", "content": 7}]), "prompts.0.messages.0: content: Input should be a valid"),
        ({"tools": [{"name": "say"}] * 2}, "definition: two tools are called 'say'"),
        ({"team": "other"}, "it is of another agent than its key"),
        ({"kind": "x" * LARGEST_DEFINITION}, "it is larger than 1048576 bytes"),
    ],
)
def test_a_definition_that_breaks_a_bound_is_unusable_with_a_reason(fields: dict[str, Any], reason: str) -> None:
    definition = read(**fields)
    assert (definition.team, definition.agent, definition.tools) == ("demo", "harper", ())
    assert (definition.unusable or "").startswith(reason)


def test_a_definition_within_the_bounds_is_read_unchanged() -> None:
    schema = nested(50, "not", {"enum": list(range(5000)), "maximum": 1.5, "const": None})
    assert read(**tool(input_schema=schema), port=65_535).tools[0].input_schema == schema


@settings(derandomize=True, deadline=None, max_examples=300)
@given(definitions("demo", "harper"))
def test_no_reader_fails_on_a_hostile_definition(data: bytes) -> None:
    definition, other = read_definition(IDS, data), read().model_copy(update={"agent": "other"})
    agents = {"demo.harper": definition, "demo.other": other}
    listing = compile_listing(agents, {}, {}, public_url="http://x.example")
    assert "local.pallas/pallas-other" in [listed.name for listed in listing.servers]
    needs = needs_of(definition, agents)
    assert all(is_token(key) for key in (*(it.key for it in needs.servers), *(model_key(it) for it in needs.models)))
    verdict = fold(definition, needs, Evidence({}, ()), slow=1.0)
    assert (verdict.status == "error") == (definition.unusable is not None)
