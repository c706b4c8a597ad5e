"""Checks answers against the output schemas of tools. They have been made, so what cannot be checked is passed on."""

import asyncio
from dataclasses import dataclass, field
from typing import cast

from pallas_contracts.agents import JsonObject, ToolDefinition
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import Result
from pallas_schemas import ToolSchema

_MOST_FAULTS = 5
_TOO_MUCH = ("there is too much in them to check", "there are more than ")
"""How the faults of a value begin that takes too long to check."""


@dataclass
class AnswerSchemas:
    """The output schemas of the tools of one revision of a definition, compiled once; None: it cannot be used."""

    _compiled: dict[str, ToolSchema | None] = field(default_factory=dict[str, ToolSchema | None])

    async def misfits(self, tool: ToolDefinition, answer: Result) -> list[str]:
        """What in an answer does not fit the output schema of its tool."""
        if tool.output_schema is None or answer.is_error:
            return []
        if tool.name not in self._compiled:
            self._compiled[tool.name] = await asyncio.to_thread(_compile, tool.output_schema)
        schema, structured = self._compiled[tool.name], answer.structured
        if schema is None:
            return []
        if not isinstance(structured, dict):
            return ["it needs an object as structured content"]
        faults = schema.faults(cast("JsonObject", structured))[:_MOST_FAULTS]
        return [] if faults[:1] and faults[0].startswith(_TOO_MUCH) else faults


def _compile(schema: JsonObject) -> ToolSchema | None:
    try:
        return ToolSchema(schema)
    except Rejected:
        return None
