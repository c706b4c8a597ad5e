"""The shapes of the API as types for the console's checker. `python -m tests.browser.typed` writes them."""

from typing import Any

from pydantic.json_schema import models_json_schema
from tests.browser.vendored import CONSOLE
from workspaces import answers

TYPES = CONSOLE / "api.d.ts"
_HEAD = "// The shapes in answers.py, written by `python -m tests.browser.typed`.\n"
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def typed() -> str:
    """The text of the file: an interface for each shape, in the order of the alphabet."""
    shapes = [
        each
        for each in vars(answers).values()
        if isinstance(each, type) and issubclass(each, answers.Shape) and each is not answers.Shape
    ]
    _, schema = models_json_schema([(each, "serialization") for each in shapes])
    parts = [_interface(name, found) for name, found in sorted(schema["$defs"].items())]
    return _HEAD + "\n".join(parts)


def _interface(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_type(schema)};\n"
    fields = [f"  {field}: {_type(each)};" for field, each in schema["properties"].items()]
    return f"export interface {name} {{\n" + "\n".join(fields) + "\n}\n"


def _type(schema: dict[str, Any]) -> str:
    match schema:
        case {"$ref": str(ref)}:
            return ref.rsplit("/", 1)[1]
        case {"enum": list(values)}:
            return " | ".join(f'"{value}"' for value in values)
        case {"const": value}:
            return f'"{value}"'
        case {"anyOf": list(options)}:
            return " | ".join(_type(option) for option in options)
        case {"type": "array", "items": items}:
            inner = _type(items)
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"Record<string, {_type(values)}>"
        case {"type": "object"}:
            return "Record<string, unknown>"
        case {"type": str(kind)}:
            return _PLAIN[kind]
        case _:
            return "unknown"


if __name__ == "__main__":
    TYPES.write_text(typed(), "utf-8")
