"""The shapes of the API as types for the console's checker. `python -m tests.browser.typed` writes them."""

from typing import Any

from pydantic.json_schema import models_json_schema
from tests.browser.vendored import CONSOLE

from pallas_runtime.api_errors import Problem
from workspaces import answers

TYPES = CONSOLE / "answers.d.ts"
_HEAD = "// The shapes in answers.py, written by `python -m tests.browser.typed`.\n"
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def typed() -> str:
    """The text of the file: an interface for each shape, and for a refusal, in the order of the alphabet."""
    shapes = [
        each
        for each in vars(answers).values()
        if isinstance(each, type) and issubclass(each, answers.Shape) and each is not answers.Shape
    ]
    _, schema = models_json_schema([(each, "serialization") for each in (*shapes, Problem)])
    parts = [_interface(name, found) for name, found in sorted(schema["$defs"].items())]
    return _HEAD + "\n".join(parts)


def _interface(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_type(schema)};\n"
    fields = [f"  {field}: {_type(each)};" for field, each in schema["properties"].items()]
    return f"export interface {name} {{\n" + "\n".join(fields) + "\n}\n"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(_type(option) for option in schema["anyOf"])
    match schema.get("type"):
        case "array":
            inner = _type(schema["items"])
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case "object":
            values = schema.get("additionalProperties", True)
            return f"Record<string, {'unknown' if isinstance(values, bool) else _type(values)}>"
        case kind:
            return _PLAIN[kind] if kind else "unknown"


if __name__ == "__main__":
    TYPES.write_text(typed(), "utf-8")
