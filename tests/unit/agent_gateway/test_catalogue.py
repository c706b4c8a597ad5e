"""How a definition is listed over MCP."""

from tests.builders import agent_definition

from agent_gateway.mcp.definitions import (
    prompts_of,
    resources_of,
    templates_of,
    tools_of,
)
from pallas_contracts.agents import PromptDefinition, ResourceDefinition, ToolDefinition

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


def test_the_health_tool_has_the_description_and_schema_of_the_contract() -> None:
    health = tools_of(DEFINITION)[-1]
    assert health.description == "Returns the health status of this agent and its downstream dependencies."
    assert health.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


def test_a_prompt_is_listed_with_its_arguments() -> None:
    [prompt] = prompts_of(DEFINITION)
    assert prompt.name == "harper_history"
    assert prompt.arguments is not None
    assert [(argument.name, argument.required) for argument in prompt.arguments] == [("limit", True)]


def test_resources_and_templates_are_listed_separately() -> None:
    [resource], [template] = resources_of(DEFINITION), templates_of(DEFINITION)
    assert (str(resource.uri), resource.name, resource.mime_type) == ("note://a", "a", "text/plain")
    assert (template.uri_template, template.name) == ("note://{id}", "note")
