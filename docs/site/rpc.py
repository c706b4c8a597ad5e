"""The tables of docs/rpc.md: methods from the OpenRPC document, and codes of errors with the words of turns."""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from docs.site.inserted import table, with_tables
from docs.site.paths import DOCS

from agent_gateway.rpc.answers import CODES
from agent_gateway.rpc.discover import DISCOVERY, EXECUTION, POOL
from pallas_contracts.turns import TURN_ERRORS
from pallas_jsonrpc import messages
from pallas_jsonrpc.messages import AGENT_ERROR

PAGE = DOCS / "rpc.md"


def rpc() -> str:
    """The page."""
    methods = [row for method in (EXECUTION, DISCOVERY, *POOL) for row in _rows(method)]
    return with_tables(
        PAGE,
        {
            "methods": table(("method", "parameter", "type", "meaning"), methods),
            "errors": table(("code", "when", "words"), _codes()),
        },
    )


def _rows(method: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The method with its summary, then its parameters."""
    yield f"`{method['name']}`", "", "", method["summary"]
    for parameter in method["params"]:
        yield from _parameter(parameter["name"], parameter["schema"], required=parameter["required"])


def _parameter(name: str, schema: dict[str, Any], *, required: bool) -> Iterator[tuple[str, ...]]:
    """A parameter, or those that it is made of."""
    needed = schema.get("required", ())
    if members := schema.get("properties"):
        for member, inner in members.items():
            yield from _parameter(f"{name}.{member}", inner, required=required and member in needed)
        return
    yield "", f"`{name}`", _type(schema) + (", required" if required else ""), schema.get("description", "")


def _type(schema: dict[str, Any]) -> str:
    most = schema.get("maxLength")
    return f"{schema['type']} of 1 to {most} characters" if most else schema["type"]


def _codes() -> list[tuple[str, ...]]:
    """Codes with their meanings, and the words of failed turns and refused calls that have each."""
    words: dict[int, list[str]] = {AGENT_ERROR: ["tool_error", "input_required"]}
    for word in TURN_ERRORS:
        words.setdefault(CODES.get(word, AGENT_ERROR), []).append(word)
    return [
        (str(code), meaning, ", ".join(f"`{word}`" for word in words.get(code, ()))) for code, meaning in _meanings()
    ]


def _meanings() -> Iterator[tuple[int, str]]:
    """Each code with the text below it in its module."""
    body = ast.parse(inspect.getsource(messages)).body
    for code, text in pairwise(body):
        match code, text:
            case ast.Assign(targets=[ast.Name(name)]), ast.Expr(ast.Constant(str(said))):
                yield getattr(messages, name), said
            case _:
                pass
