"""A module: a function of the language, and for a tool of an agent what it takes to call it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pallas_contracts.agents import AgentDefinition, JsonObject, ToolDefinition
from pallas_contracts.data_agents import WRAPPED
from pallas_cst import types as t
from pallas_cst.functions import Function
from pallas_cst.json_schema import Room, parameters_of, type_of
from pallas_cst.stdlib import StandardFunction
from pallas_cst.types import RESERVED
from pallas_turns.model import Refusal
from pallas_turns.submit import ToolSchemas

SUPPORTED_OPTIONS = (
    "retry",
    "timeout",
    "delay",
    "backoff",
    "fallback",
    "cache",
    "cache_backend",
    "throttle",
    "concurrency",
    "on_error",
    "lazy",
    "priority",
)

_ANNOTATIONS = {"readOnlyHint": "read-only", "idempotentHint": "idempotent", "destructiveHint": "destructive"}


@dataclass(frozen=True, slots=True)
class Module:
    """A tool of an agent as a function. `schemas` has the compiled input schemas of the agent's tools."""

    function: Function
    definition: AgentDefinition
    tool: ToolDefinition
    schemas: ToolSchemas = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """The qualified name in the language."""
        return self.function.qualified

    @property
    def basis(self) -> str:
        """`{team}/{agent}/{tool}`: what is called, as it is recorded in a journal."""
        return self.function.module

    @property
    def wrapped(self) -> bool:
        """Whether an answer is `{"result": answer}`, because MCP wants objects."""
        return self.tool.meta == WRAPPED

    @property
    def repeatable(self) -> bool:
        """Whether it may be called again when it is not known whether a call took effect."""
        hints = self.tool.annotations or {}
        return self.definition.retry == "safe" or bool(hints.get("readOnlyHint") or hints.get("idempotentHint"))

    @property
    def tags(self) -> tuple[str, ...]:
        """Team, agent, kind, and the tool's hints, each once."""
        hints = self.tool.annotations or {}
        said = (tag for hint, tag in _ANNOTATIONS.items() if hints.get(hint))
        return tuple(dict.fromkeys((self.definition.team, self.definition.agent, self.definition.kind, *said)))

    async def check(self, arguments: JsonObject) -> JsonObject | Refusal:
        """The arguments without optional ones that are null, or why they do not fit the tool."""
        return await self.schemas.check(self.tool, arguments)

    def document(self) -> JsonObject:
        """The module document (RFC-018, "Module Resource Example")."""
        timeout = {"timeout": f"{self.definition.limits.turn_timeout:g}s"}
        return _document(
            self.function, self.tool.description, self.definition.version, self.tags, SUPPORTED_OPTIONS, timeout
        )


def modules_of(definition: AgentDefinition, namespace: str) -> list[Module]:
    """The modules of an agent."""
    names, room = language_names(tool.name for tool in definition.tools), Room()
    schemas = ToolSchemas(f"{definition.team}/{definition.agent}")
    return [_module_of(definition, tool, namespace, names[tool.name], schemas, room) for tool in definition.tools]


def _module_of(
    definition: AgentDefinition, tool: ToolDefinition, namespace: str, name: str, schemas: ToolSchemas, room: Room
) -> Module:
    """The module of a tool. An answer without a schema is a String: its text."""
    parameters, needed = parameters_of(tool.input_schema, room)
    basis = f"{definition.team}/{definition.agent}/{tool.name}"
    returns: t.Type = t.STRING if tool.output_schema is None else type_of(tool.output_schema, room)
    if tool.meta == WRAPPED and isinstance(returns, t.Record):
        returns = returns.fields.get("result", t.JSON)
    function = Function(name, parameters, returns, basis, namespace, tool=True, needed=needed)
    return Module(function, definition, tool, schemas)


def standard_document(standard: StandardFunction) -> JsonObject:
    """The module document of a function of the standard library."""
    return _document(standard.function, standard.about, "1.0.0", ("stdlib",), ("fallback", "on_error"), {})


def _document(
    function: Function,
    description: str,
    version: str,
    tags: tuple[str, ...],
    options: tuple[str, ...],
    defaults: Mapping[str, str],
) -> JsonObject:
    fields = {name: str(kind) for name, kind in function.parameters}
    return {
        "name": function.qualified,
        "description": description,
        "version": version,
        "input": {"type": "record", "fields": fields},
        "output": _output(function.returns),
        "tags": list(tags),
        "options": {"supportedOptions": list(options), "defaults": dict(defaults)},
        "signature": str(function),
    }


def _output(kind: t.Type) -> JsonObject:
    if isinstance(kind, t.Record):
        return {"type": "record", "fields": {name: str(field) for name, field in kind.fields.items()}}
    return {"type": str(kind)}


_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_FIRST = re.compile(r"[A-Za-z_]")


def language_names(originals: Iterable[str]) -> dict[str, str]:
    """The name in the language of each original name."""
    found: dict[str, str] = {}
    taken, last = set[str](), Counter[str]()
    for original in sorted(originals):
        name = first = _identifier(original)
        while name in taken:
            last[first] = max(2, last[first] + 1)
            name = f"{first}_{last[first]}"
        taken.add(name)
        found[original] = name
    return found


def _identifier(original: str) -> str:
    name = _NOT_ALLOWED.sub("_", original)
    return f"_{name}" if name in RESERVED or not _FIRST.match(name) else name
