"""How a definition is listed over MCP."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from mcp_types.methods import serialize_server_result
from pydantic import BaseModel
from tests.builders import MODERN, agent_definition
from tests.hostile import definitions, definitions_with_an_odd_part
from tests.requirements import requirement

from agent_gateway.mcp.definitions import (
    prompts_of,
    resources_of,
    templates_of,
    tools_of,
)
from pallas_contracts.agents import (
    AgentDefinition,
    PromptDefinition,
    ResourceDefinition,
    ToolDefinition,
    read_definition,
)

DEFINITION = agent_definition(
    "demo",
    tools=(
        ToolDefinition(
            name="harper",
            title="Harper",
            description="Answers.",
            input_schema={"type": "object", "required": ["message"]},
            output_schema={"type": "object"},
            annotations={"readOnlyHint": True},
            meta={"io.example/x": 1},
            aliases=("send_message",),
            correlation="conversation_id",
        ),
        ToolDefinition(name="bare"),
    ),
    prompts=(PromptDefinition(name="harper_history", arguments=({"name": "limit", "required": True},), messages=()),),
    resources=(
        ResourceDefinition(uri="note://a", name="a", mime_type="text/plain"),
        ResourceDefinition(uri="note://{id}", name="note", template=True),
    ),
)


def test_tools_are_listed_in_the_order_of_the_definition_with_the_health_tool_last() -> None:
    assert [tool.name for tool in tools_of(DEFINITION)] == ["harper", "bare", "get_health"]


def test_a_listed_tool_has_the_fields_of_mcp_and_no_others() -> None:
    listed = tools_of(DEFINITION)[0].model_dump(by_alias=True, exclude_none=True)
    assert listed == {
        "name": "harper",
        "title": "Harper",
        "description": "Answers.",
        "inputSchema": {"type": "object", "required": ["message"]},
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "_meta": {"io.example/x": 1},
    }


@requirement("P-3.2", "P-3.3")
def test_the_health_tool_has_the_description_and_schema_of_the_contract() -> None:
    health = tools_of(DEFINITION)[-1]
    assert health.description == "Returns the health status of this agent and its downstream dependencies."
    assert health.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


def test_a_tool_of_the_agent_does_not_stand_for_the_health_tool() -> None:
    own = DEFINITION.model_copy(update={"tools": (*DEFINITION.tools, ToolDefinition(name="get_health"))})
    assert tools_of(own) == tools_of(DEFINITION)


def test_a_prompt_is_listed_with_its_arguments() -> None:
    [prompt] = prompts_of(DEFINITION)
    assert prompt.name == "harper_history"
    assert prompt.arguments is not None
    assert [(argument.name, argument.required) for argument in prompt.arguments] == [("limit", True)]


def test_resources_and_templates_are_listed_separately() -> None:
    [resource], [template] = resources_of(DEFINITION), templates_of(DEFINITION)
    assert (str(resource.uri), resource.name, resource.mime_type) == ("note://a", "a", "text/plain")
    assert (template.uri_template, template.name) == ("note://{id}", "note")


def answer_all_lists(definition: AgentDefinition) -> None:
    """Make the answers to all lists, in every revision."""
    found: dict[str, dict[str, Sequence[BaseModel]]] = {
        "tools/list": {"tools": tools_of(definition)},
        "prompts/list": {"prompts": prompts_of(definition)},
        "resources/list": {"resources": resources_of(definition)},
        "resources/templates/list": {"resourceTemplates": templates_of(definition)},
    }
    for method, lists in found.items():
        for name, items in lists.items():
            dumped = [item.model_dump(by_alias=True, exclude_none=True) for item in items]
            for revision in (MODERN, "2025-11-25"):
                extra = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
                serialize_server_result(method, revision, {name: dumped, **extra})


@settings(derandomize=True, deadline=None, max_examples=1000)
@given(definitions("demo", "harper") | definitions_with_an_odd_part("demo", "harper"))
def test_every_definition_that_is_not_unusable_can_be_listed_in_every_revision(data: bytes) -> None:
    answer_all_lists(read_definition({"team": "demo", "agent": "harper"}, data))


TEXT = {"type": "text", "text": "hello"}


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "note://a", "name": "a"},
        {"type": "resource", "resource": {"uri": "note://a", "text": "a"}},
        {"type": "resource", "resource": {"uri": "note://a", "blob": "AAAA"}},
        {"type": "image", "data": "AAAA"},
        {"type": "zzz"},
        {"type": "resource", "resource": {"uri": "note://a"}},
        7,
    ],
)
def test_messages_of_a_prompt_are_usable_if_and_only_if_they_can_be_answered(content: Any) -> None:
    messages = [{"role": "user", "content": content}]
    definition = {"team": "demo", "agent": "a", "title": "A", "updated_at": "2026-01-01T00:00:00Z"}
    data = json.dumps({**definition, "prompts": [{"name": "p", "messages": messages}]}).encode()
    usable = read_definition({"team": "demo", "agent": "a"}, data).unusable is None
    try:
        serialize_server_result("prompts/get", "2025-11-25", {"messages": messages})
    except ValueError:
        assert not usable
    else:
        assert usable
