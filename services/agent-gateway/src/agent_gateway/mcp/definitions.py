"""An agent's definition in MCP's words: what tools/list, prompts/list and resources/list answer."""

from typing import Any

import mcp_types as types

from pallas_contracts.agents import AgentDefinition, PromptDefinition, ResourceDefinition, ToolDefinition

GET_HEALTH = "get_health"

HEALTH_TOOL = ToolDefinition(
    name=GET_HEALTH,
    description="Returns the health status of this agent and its downstream dependencies.",
    input_schema={"type": "object", "properties": {}, "additionalProperties": False},
)
"""Exactly as in the interface contract, section 3."""


_OBJECT = {"type": "object"}
"""The type that MCP demands of a schema. A definition may leave it out."""


def tools_of(definition: AgentDefinition) -> list[types.Tool]:
    """All tools, in the order of the definition, the health tool last. No tool of an agent stands for that one."""
    own = [tool for tool in definition.tools if tool.name != GET_HEALTH]
    return [_tool(tool) for tool in (*own, HEALTH_TOOL)]


def _tool(tool: ToolDefinition) -> types.Tool:
    return types.Tool.model_validate(
        _present(
            name=tool.name,
            title=tool.title,
            description=tool.description or None,
            inputSchema=_OBJECT | tool.input_schema,
            outputSchema=None if tool.output_schema is None else _OBJECT | tool.output_schema,
            annotations=tool.annotations,
            icons=list(tool.icons) or None,
            _meta=tool.meta,
        )
    )


def prompts_of(definition: AgentDefinition) -> list[types.Prompt]:
    """All prompts."""
    return [_prompt(prompt) for prompt in definition.prompts]


def _prompt(prompt: PromptDefinition) -> types.Prompt:
    return types.Prompt.model_validate(
        _present(
            name=prompt.name,
            title=prompt.title,
            description=prompt.description,
            arguments=list(prompt.arguments) or None,
        )
    )


def resources_of(definition: AgentDefinition) -> list[types.Resource]:
    """All resources that are not templates."""
    return [
        types.Resource.model_validate(_resource(resource) | {"uri": resource.uri})
        for resource in definition.resources
        if not resource.template
    ]


def templates_of(definition: AgentDefinition) -> list[types.ResourceTemplate]:
    """All resource templates."""
    return [
        types.ResourceTemplate.model_validate(_resource(resource) | {"uriTemplate": resource.uri})
        for resource in definition.resources
        if resource.template
    ]


def _resource(resource: ResourceDefinition) -> dict[str, Any]:
    return _present(
        name=resource.name, title=resource.title, description=resource.description, mimeType=resource.mime_type
    )


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
