"""An agent's definition in MCP's words: what tools/list, prompts/list and resources/list answer.

Also what the health tool answers, and the schemas that answers of the agent's tools are checked against.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import mcp_types as types

from pallas_bus.ask import ask
from pallas_bus.connection import Bus
from pallas_bus.kv import Table
from pallas_contracts.agents import AgentDefinition, JsonObject, PromptDefinition, ResourceDefinition, ToolDefinition
from pallas_contracts.bounds import Json
from pallas_contracts.catalog import CHECK_HEALTH
from pallas_contracts.errors import PallasError, Rejected, Unavailable
from pallas_contracts.health import AgentHealth, HealthAsked
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Result
from pallas_schemas.schema import Schema
from pallas_schemas.work import UNCHECKED

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


STALE = "check is stale"


async def get_health(bus: Bus, known: Table[AgentHealth], definition: AgentDefinition) -> str:
    """The health of an agent as the JSON object of the contract.

    A published result is the answer for two probe intervals. After that the monitor is asked; when it does not answer,
    the last result is the answer, as degraded.
    """
    health = known.get(f"{definition.team}.{definition.agent}")
    if health is None or _age(health) > 2 * health.interval:
        health = await _ask(bus, definition) or _stale(health)
    return _json(health)


def _age(health: AgentHealth) -> float:
    return (utc_now() - health.at).total_seconds()


async def _ask(bus: Bus, definition: AgentDefinition) -> AgentHealth | None:
    question = HealthAsked(team=definition.team, agent=definition.agent)
    try:
        return await ask(bus, CHECK_HEALTH, question, team=definition.team, agent=definition.agent)
    except PallasError:
        return None


def _stale(health: AgentHealth | None) -> AgentHealth | None:
    if health is None:
        return None
    status = "error" if health.status == "error" else "degraded"
    message = f"{health.message}; {STALE}" if health.message else STALE
    return health.model_copy(update={"status": status, "message": message})


def _json(health: AgentHealth | None) -> str:
    if health is None:
        return json.dumps({"status": "degraded", "timestamp": _time(utc_now()), "message": "not checked yet"})
    answer = {"status": health.status, "timestamp": _time(health.at)}
    if health.status != "ok":
        answer["message"] = health.message or "no reason given"
    return json.dumps(answer)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_MOST_FAULTS = 5


@dataclass
class AnswerSchemas:
    """The output schemas of the tools of one revision of a definition, compiled once; None: it cannot be used."""

    owner: str
    _compiled: dict[str, Schema | None] = field(default_factory=dict[str, Schema | None])

    async def misfits(self, tool: ToolDefinition, answer: Result) -> list[str]:
        """What in an answer does not fit the output schema of its tool."""
        if tool.output_schema is None or answer.is_error:
            return []
        try:
            if (schema := await self._find(tool.name, tool.output_schema)) is None:
                return []
            structured: Json = answer.structured
            if not isinstance(structured, dict):
                return ["it needs an object as structured content"]
            faults = await schema.faults(structured)
        except Unavailable:
            return []
        return [] if UNCHECKED.issuperset(faults) else faults[:_MOST_FAULTS]

    async def _find(self, tool: str, schema: JsonObject) -> Schema | None:
        if tool not in self._compiled:
            try:
                self._compiled[tool] = await Schema.compiled(schema, self.owner)
            except Rejected:
                self._compiled[tool] = None
        return self._compiled[tool]
