"""Schemas of the tools (RFC-018, "MCP Tools"). What is not in the RFC is optional."""

from typing import Any

from pallas_contracts.agents import JsonObject
from pallas_contracts.pipelines import LONGEST_SOURCE

MOST_ITEMS = 1000
"""Items of a batch."""

SOURCE = {"type": "string", "description": "Pipeline source code (.cst)", "maxLength": LONGEST_SOURCE}
REF = {"type": "string", "description": "Pipeline reference: a name, or sha256: and 64 hex digits", "maxLength": 300}
INPUTS = {"type": "object", "description": "Input values by name"}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_TEXT, _FLAG, _COUNT, _ANY = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}, {"type": "object"}
_DIAGNOSTIC = {
    "type": "object",
    "properties": {"line": _COUNT, "column": _COUNT, "code": _TEXT, "message": _TEXT},
    "required": ["line", "column", "message"],
}
_DIAGNOSTICS = {"type": "array", "items": _DIAGNOSTIC}
_MILLISECONDS = {"type": "number"}
_METRICS = {
    "type": "object",
    "properties": {"compileTimeMs": _MILLISECONDS, "executeTimeMs": _MILLISECONDS, "modulesExecuted": _COUNT},
}


def takes(required: tuple[str, ...] = (), **properties: JsonObject) -> JsonObject:
    """The schema of a tool's arguments."""
    return {"type": "object", "properties": properties, "required": list(required)}


def text(description: str, longest: int = 300) -> JsonObject:
    """The schema of a text."""
    return {"type": "string", "description": description, "maxLength": longest}


def _answers(*required: str, **properties: Any) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


VALIDATED = _answers("valid", valid=_FLAG, warnings=_DIAGNOSTICS, errors=_DIAGNOSTICS)
COMPILED = _answers(
    "success",
    success=_FLAG,
    structuralHash=_TEXT,
    syntacticHash=_TEXT,
    inputs=_TEXTS,
    outputs=_TEXTS,
    dag={
        "type": "object",
        "properties": {"nodes": {"type": "array", "items": _TEXT}, "edges": {"type": "array"}},
    },
    storedAs=_TEXT,
    version=_COUNT,
    warnings=_DIAGNOSTICS,
    errors=_DIAGNOSTICS,
)
EXECUTED = _answers(
    "success",
    success=_FLAG,
    status=_TEXT,
    outputs=_ANY | {"additionalProperties": True},
    executionId=_TEXT,
    structuralHash=_TEXT,
    missingInputs=_TEXTS,
    pendingOutputs={"type": "array", "items": _TEXT},
    resumptionCount=_COUNT,
    metrics=_METRICS,
    calls={"type": "array", "items": _ANY},
    caller=_TEXT,
)
BATCH = _answers(
    "success",
    "results",
    success=_FLAG,
    executionId=_TEXT,
    results={"type": "array", "items": _ANY},
    failed=_COUNT,
    metrics=_METRICS,
)
MODULES = _answers("modules", modules={"type": "array", "items": _ANY})
MODULE = _answers(
    "name",
    name=_TEXT,
    description=_TEXT,
    version=_TEXT,
    input=_ANY,
    output=_ANY,
    tags={"type": "array", "items": _TEXT},
    options=_ANY,
    signature=_TEXT,
    unavailable=_TEXT,
)
PIPELINES = _answers("pipelines", pipelines={"type": "array", "items": _ANY})
PUBLISHED = _answers("name", "tool", "module", name=_TEXT, tool=_TEXT, module=_TEXT, inputs=_TEXTS, outputs=_TEXTS)
UNPUBLISHED = _answers("name", name=_TEXT)
DELETED = _answers("deleted", deleted=_FLAG)
_CHANGES = _answers("added", "removed", "changed", added=_ANY, removed=_ANY, changed=_ANY)
_CALLS = {"type": "array", "items": _ANY}
DIFFERENCE = _answers(
    "same",
    "left",
    "right",
    same=_FLAG,
    left=_TEXT,
    right=_TEXT,
    inputs=_CHANGES,
    outputs=_CHANGES,
    calls=_answers("added", "removed", "changed", added=_CALLS, removed=_CALLS, changed=_CALLS),
    text=_TEXT,
)
HISTORY = _answers("executions", executions={"type": "array", "items": _ANY}, cursor=_TEXT)
