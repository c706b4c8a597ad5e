"""Types as the HTTP API of the engine writes them (`CList(CInt)`), as programs write them (`List<Int>`)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pallas_cst import types as t
from pallas_cst.values import is_list, is_object

_NAME = re.compile(r"C([A-Z][A-Za-z]*+)")
_FIELD = re.compile(r"(.*?) -> ", re.DOTALL)
_PRIMITIVES = {str(each): each for each in (*t.PRIMITIVES.values(), t.NOTHING, t.JSON)}
_GENERICS: dict[str, Callable[[t.Type], t.Type]] = {"List": t.ListOf, "Seq": t.SeqOf, "Optional": t.OptionalOf}
_TYPED = {"inputs", "outputs", "inputSchema", "outputSchema", "missingInputs"}
"""Fields with types by name. In answers of executions `outputs` has values."""


def with_language_types(answer: Any) -> Any:
    """A description by the HTTP API, in which types are written as programs write them."""
    if is_list(answer):
        return [with_language_types(each) for each in answer]
    if not is_object(answer):
        return answer
    return {
        name: language_types(each) if name in _TYPED and is_object(each) else with_language_types(each)
        for name, each in answer.items()
    }


def language_types(types: dict[str, Any]) -> dict[str, Any]:
    """Types by name, as programs write them."""
    return {name: language_type(each) if isinstance(each, str) else each for name, each in types.items()}


def language_type(text: str) -> str:
    """The type as programs write it. What the engine does not write like this stays as it is."""
    reader = _Reader(text)
    try:
        kind = reader.type()
    except _NoType:
        return text
    return str(kind) if reader.at == len(text) else text


class _NoType(Exception):
    pass


@dataclass
class _Reader:
    text: str
    at: int = 0
    depth: int = 0

    def take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _NoType
        self.at = found.end()
        return found[1]

    def need(self, symbol: str) -> None:
        if not self.text.startswith(symbol, self.at):
            raise _NoType
        self.at += len(symbol)

    def type(self) -> t.Type:
        self.depth += 1
        name = self.take(_NAME)
        if self.depth > t.MOST_DEPTH:
            raise _NoType
        kind = _PRIMITIVES.get(name) or self.compound(name)
        self.depth -= 1
        return kind

    def compound(self, name: str) -> t.Type:
        self.need("(")
        if name in ("Product", "Union"):
            self.need("Map(")
            parts = [] if self.text.startswith(")", self.at) else self.separated(self.part)
            self.need("))")
            return t.Record(dict(parts)) if name == "Product" else t.union(kind for _, kind in parts)
        kinds = self.separated(self.type)
        self.need(")")
        if name == "Function":
            return t.Function(tuple(kinds[:-1]), kinds[-1])
        if name == "Map" and len(kinds) == 2:
            return t.MapOf(*kinds)
        if name not in _GENERICS or len(kinds) != 1:
            raise _NoType
        return _GENERICS[name](kinds[0])

    def separated[T](self, item: Callable[[], T]) -> list[T]:
        items = [item()]
        while self.text.startswith(",", self.at):
            self.at += 2 if self.text.startswith(", ", self.at) else 1
            items.append(item())
        return items

    def part(self) -> tuple[str, t.Type]:
        return self.take(_FIELD), self.type()
