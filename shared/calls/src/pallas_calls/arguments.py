"""Turn a call into arguments that fit the tool, or into a sentence that says why they do not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pallas_calls.model import Refusal
from pallas_contracts.agents import AgentDefinition, JsonObject, ToolDefinition
from pallas_contracts.errors import NotFound


class Validator(Protocol):
    """A compiled JSON Schema."""

    def iter_errors(self, instance: Any) -> Any:
        """Yield what does not fit."""
        ...


@dataclass
class ToolSchemas:
    """Compiled schemas of one revision of a definition."""

    definition: AgentDefinition
    _compiled: dict[str, Validator] = field(default_factory=dict[str, Validator])

    def validator(self, tool: ToolDefinition) -> Validator:
        """The compiled input schema of a tool."""
        if (known := self._compiled.get(tool.name)) is None:
            known = self._compiled[tool.name] = _compile(tool.input_schema)
        return known


def _compile(schema: JsonObject) -> Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema)


def find_tool(definition: AgentDefinition, name: str) -> ToolDefinition:
    """The tool of that name or alias.

    Raises:
        NotFound: the agent has no such tool.
    """
    tool = definition.tool(name)
    if tool is None:
        raise NotFound(f"Unknown tool: {name!r}", code="unknown_tool")
    return tool


def check_arguments(schemas: ToolSchemas, tool: ToolDefinition, arguments: Mapping[str, Any]) -> JsonObject | Refusal:
    """Drop optional arguments that are null and check the rest against the tool's schema."""
    required = frozenset(tool.input_schema.get("required", ()))
    given = {name: value for name, value in arguments.items() if value is not None or name in required}
    faults = [_sentence(fault) for fault in schemas.validator(tool).iter_errors(given)]
    if not faults:
        return given
    return Refusal("invalid_arguments", f"The arguments of {tool.name!r} do not fit: {'; '.join(sorted(faults)[:5])}")


def _sentence(fault: Any) -> str:
    """What is wrong with one field, without repeating its value, which may be large or private."""
    where = "/".join(str(part) for part in fault.absolute_path) or "arguments"
    match fault.validator:
        case "type":
            return f"{where} must be of type {fault.validator_value}"
        case "required":
            return f"{where}: {_missing(fault)} is required"
        case "additionalProperties":
            return f"{where}: unknown field {_unknown(fault)}"
        case _:
            return f"{where} breaks the rule {fault.validator} ({_short(fault.validator_value)})"


def _missing(fault: Any) -> str:
    return ", ".join(repr(name) for name in fault.validator_value if name not in fault.instance)


def _unknown(fault: Any) -> str:
    known = fault.schema.get("properties", {})
    return ", ".join(repr(name) for name in sorted(fault.instance) if name not in known)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
