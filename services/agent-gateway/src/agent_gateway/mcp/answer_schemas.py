"""Checks answers against the output schemas of tools. They have been made, so what cannot be checked is passed on."""

from dataclasses import dataclass, field

from pallas_contracts.agents import JsonObject, ToolDefinition
from pallas_contracts.bounds import Json
from pallas_contracts.errors import Rejected, Unavailable
from pallas_contracts.turns import Result
from pallas_schemas.schema import Schema
from pallas_schemas.work import UNCHECKED

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
