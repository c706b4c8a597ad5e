"""The contract of the tools as it is written: its blocks, by tool and heading."""

import ast
import json
import re
from pathlib import Path
from typing import Any

from pallas_contracts.bounds import Json

TEXT = (Path(__file__).parents[2] / "data" / "fleet" / "fleet-mcp-tools.md").read_text("utf-8")

_BLOCK = re.compile(r"```(python|json)\n(.*?)```", re.DOTALL)
OPTIONAL = re.compile(r'"(\w+)": .*# Optional')


def tools() -> dict[str, dict[str, str]]:
    """The text below each heading of each tool."""
    parts = re.split(r"^## Tool: (\w+)\n", TEXT.partition("## Common Patterns")[0], flags=re.MULTILINE)
    return {name: _headings(text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _headings(text: str) -> dict[str, str]:
    parts = re.split(r"^### (.+)\n", text, flags=re.MULTILINE)
    return dict(zip((title.partition(" (")[0] for title in parts[1::2]), parts[2::2], strict=True))


def block(text: str) -> Any:
    """The value of the block in a text: types are their names, as `str | None`."""
    found = _BLOCK.search(text)
    if found is None:
        return {}
    kind, body = found.groups()
    return json.loads(body) if kind == "json" else _value(ast.parse(body.strip(), mode="eval").body)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Dict(keys=keys, values=values):
            return {ast.literal_eval(key): _value(it) for key, it in zip(keys, values, strict=True) if key is not None}
        case ast.List(elts=items):
            return [_value(it) for it in items if not (isinstance(it, ast.Constant) and it.value is ...)]
        case ast.Constant(value=value):
            return "None" if value is None else value
        case _:
            return ast.unparse(node)


def optional(text: str) -> set[str]:
    """The names in a block that may be missing."""
    return set(OPTIONAL.findall(text))


def fits(example: Json, real: Json) -> bool:
    """Whether an answer has the shape of an example: the same names and types. A null says nothing about the type."""
    if isinstance(example, dict) and isinstance(real, dict):
        return example.keys() == real.keys() and all(fits(example[name], real[name]) for name in example)
    if isinstance(example, list) and isinstance(real, list):
        return all(any(fits(one, each) for one in example) for each in real)
    return example is None or real is None or isinstance(real, example.__class__)
