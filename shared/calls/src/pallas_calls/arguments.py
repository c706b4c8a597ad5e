"""Turn a call into arguments that fit the tool, or into a sentence that says why they do not."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pallas_calls.model import AGENT_RETRY_AFTER_MS, Refusal
from pallas_contracts.agents import AgentDefinition, JsonObject, ToolDefinition
from pallas_contracts.errors import NotFound, Rejected, Unavailable
from pallas_schemas.schema import Schema

_MOST_FAULTS = 5


@dataclass
class ToolSchemas:
    """The input schemas of the tools of one revision of a definition. `owner` is its agent."""

    owner: str
    _compiled: dict[str, Schema | Refusal] = field(default_factory=dict[str, "Schema | Refusal"])
    _compiling: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(self, tool: ToolDefinition, arguments: Mapping[str, Any]) -> JsonObject | Refusal:
        """Drop optional arguments that are null, and check the rest unless the tool does so itself."""
        required = frozenset(tool.input_schema.get("required", ()))
        given = {name: value for name, value in arguments.items() if value is not None or name in required}
        if tool.checks_arguments:
            return given
        try:
            schema = await self._of(tool)
            if isinstance(schema, Refusal):
                return schema
            faults = tuple((await schema.faults(given))[:_MOST_FAULTS])
        except Unavailable as error:
            return Refusal("busy", error.message, AGENT_RETRY_AFTER_MS, limit="checks")
        if not faults:
            return given
        sentence = f"The arguments of {tool.name!r} do not fit: {'; '.join(faults)}"
        return Refusal("invalid_arguments", sentence, faults=faults)

    async def _of(self, tool: ToolDefinition) -> Schema | Refusal:
        """The input schema of a tool, compiled once, or why none of its calls can be taken."""
        async with self._compiling:
            if tool.name not in self._compiled:
                self._compiled[tool.name] = await self._compile(tool)
            return self._compiled[tool.name]

    async def _compile(self, tool: ToolDefinition) -> Schema | Refusal:
        try:
            return await Schema.compiled(tool.input_schema, self.owner)
        except Rejected as error:
            return unusable(f"tool {tool.name!r}: input_schema{error.message}")


def unusable(reason: str) -> Refusal:
    """The refusal of a call whose agent has a definition that cannot be used."""
    return Refusal("agent_failed", f"The agent's definition cannot be used: {reason}", AGENT_RETRY_AFTER_MS)


def find_tool(definition: AgentDefinition, name: str) -> ToolDefinition:
    """The tool of that name or alias.

    Raises:
        NotFound: the agent has no such tool.
    """
    tool = definition.tool(name)
    if tool is None:
        raise NotFound(f"Unknown tool: {name!r}", code="unknown_tool")
    return tool
