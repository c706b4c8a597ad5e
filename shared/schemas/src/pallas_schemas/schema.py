"""A tool's schema as services use it: checks take no time of the event loop, whoever has written schema and arguments.

What is small is checked where it is called (`small.py`), everything else apart (`apart.py`).
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic_core import to_json

from pallas_contracts.errors import Rejected
from pallas_schemas.apart import APART
from pallas_schemas.parts import JsonObject, size_of
from pallas_schemas.small import plain_size
from pallas_schemas.tool_schema import ToolSchema
from pallas_schemas.work import TOO_MUCH

if TYPE_CHECKING:
    from pallas_contracts.agents import AgentDefinition

MOST_HERE = 200_000
"""The product of sizes up to which a check is made here: some milliseconds at worst."""
MOST_EXPLAINED_HERE = 10_000


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of arguments or answers. `owner` is whose it is, as far as one can harm others by it."""

    owner: str
    _schema: JsonObject
    _size: int
    _here: ToolSchema | None

    @classmethod
    async def compiled(cls, schema: JsonObject, owner: str) -> "Schema":
        """Compile a schema.

        Raises:
            Rejected: it cannot be used; the message names the place and the reason.
            Unavailable: it cannot be compiled now (`busy`).
        """
        size = plain_size(schema)
        if size is not None:
            return cls(owner, schema, size, ToolSchema(schema))
        if await asyncio.wrap_future(APART.submit(owner, to_json(schema) + b"\n\n")):
            raise Rejected("/: it takes too long to compile, or has long numbers")
        return cls(owner, schema, 0, None)

    async def faults(self, arguments: JsonObject) -> list[str]:
        """What does not fit: a sentence each, with the field and the rule, without values. Empty: all does.

        Raises:
            Unavailable: it cannot be checked now (`busy`).
        """
        if self._here is not None and (work := self._size * size_of(arguments, MOST_HERE // self._size)) <= MOST_HERE:
            if self._here.fits(arguments):
                return []
            if work <= MOST_EXPLAINED_HERE:
                return self._here.explained(arguments)
        try:
            request = b"%b\n%b\n" % (to_json(self._schema), to_json(arguments))
        except ValueError:  # there are too many levels
            return [TOO_MUCH]
        return await asyncio.wrap_future(APART.submit(self.owner, request))


async def check_definition(definition: "AgentDefinition") -> None:
    """Compile the input schemas of a definition's tools.

    Raises:
        Rejected: one cannot be used; the message names the tool, the place and the reason.
        Unavailable: they cannot be compiled now (`busy`).
    """
    await _check(definition, "input_schema")


async def check_answers(definition: "AgentDefinition") -> None:
    """Compile the output schemas of a definition's tools; raises as `check_definition` does."""
    await _check(definition, "output_schema")


async def _check(definition: "AgentDefinition", kind: str) -> None:
    for tool in definition.tools:
        try:
            await Schema.compiled(getattr(tool, kind) or {}, f"{definition.team}/{definition.agent}")
        except Rejected as error:
            raise Rejected(f"tool {tool.name!r}: {kind}{error.message}") from error
