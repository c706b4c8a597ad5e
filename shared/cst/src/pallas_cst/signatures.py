"""Signatures of functions as JSON, with types as text: what a checker needs to know of functions that are elsewhere.

Types are as `str` writes them, which is as in programs. Two more are not written in programs: `Nothing` and
`(Int) => Boolean`. A field whose name is none of the language has a JSON string: `{ "content type": String }`.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Never

from pallas_cst import types as t
from pallas_cst.functions import Function

_TOKEN = re.compile(r'\s*+([A-Za-z_][A-Za-z0-9_-]*+|"(?:[^"\\]|\\.)*+"|=>|[{}<>(),:|])')
_PRIMITIVES = {each.name: each for each in (*t.PRIMITIVES.values(), t.NOTHING, t.JSON)}
_GENERICS: dict[str, Callable[[t.Type], t.Type]] = {"List": t.ListOf, "Seq": t.SeqOf, "Optional": t.OptionalOf}


class BadSignature(Exception):
    """What was read is no signature of a function, or no type."""


def signature_json(function: Function) -> dict[str, Any]:
    """A function as JSON; `optional`, `tool` only if they are true, `module` if it is not the qualified name."""
    given: dict[str, Any] = {
        "name": function.name,
        "namespace": function.namespace,
        "parameters": [
            {"name": name, "type": str(kind)} | ({} if index < function.least else {"optional": True})
            for index, (name, kind) in enumerate(function.parameters)
        ],
        "returns": str(function.returns),
    }
    if function.tool:
        given["tool"] = True
    if function.module != function.qualified:
        given["module"] = function.module
    return given


def function_from(given: Mapping[str, Any]) -> Function:
    """The function behind what `signature_json` has made.

    Raises:
        BadSignature: it is no signature.
    """
    if not isinstance(given.get("namespace", ""), str | None):
        raise BadSignature("no signature of a function: its namespace is no text")
    try:
        parameters = tuple((str(each["name"]), read_type(each["type"])) for each in given["parameters"])
        needed = sum(not each.get("optional") for each in given["parameters"])
        function = Function(
            str(given["name"]),
            parameters,
            read_type(given["returns"]),
            str(given.get("module", "")),
            given["namespace"],
            tool=bool(given.get("tool")),
            needed=needed if needed < len(parameters) else None,
        )
        return function if function.module else replace(function, module=function.qualified)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadSignature(f"no signature of a function: {error!r}") from None


def read_type(text: str) -> t.Type:
    """The type that a text stands for.

    Raises:
        BadSignature: it stands for none.
    """
    reader = _Reader(text)
    reader.advance()
    kind = reader.type()
    if reader.token or reader.at < len(text.rstrip()):
        reader.refuse()
    return kind


@dataclass
class _Reader:
    text: str
    at: int = 0
    token: str = ""  # the one in front, which is not taken yet
    depth: int = 0

    def refuse(self) -> Never:
        raise BadSignature(f"no type: {self.text[:200]!r}, at {self.token or 'the end'!r}")

    def advance(self) -> str:
        """Take the token in front."""
        taken, found = self.token, _TOKEN.match(self.text, self.at)
        self.token = found[1] if found else ""
        self.at = found.end() if found else self.at
        return taken

    def has(self, symbol: str) -> bool:
        """Take a symbol if it is in front."""
        return self.token == symbol and bool(self.advance())

    def need(self, symbol: str) -> None:
        if not self.has(symbol):
            self.refuse()

    def separated[T](self, item: Callable[[], T], close: str) -> list[T]:
        """Items with commas between them, up to the closing symbol."""
        items: list[T] = []
        while not self.has(close):
            if items:
                self.need(",")
            items.append(item())
        return items

    def type(self) -> t.Type:
        self.depth += 1
        if self.depth > t.MOST_DEPTH:
            self.refuse()
        members = [self.member()]
        while self.has("|"):
            members.append(self.member())
        self.depth -= 1
        return t.union(members)

    def member(self) -> t.Type:
        if self.has("{"):
            return t.Record(dict(self.separated(self.field, "}")))
        if self.has("("):
            parameters = tuple(self.separated(self.type, ")"))
            self.need("=>")
            return t.Function(parameters, self.type())
        if self.token in _PRIMITIVES:
            return _PRIMITIVES[self.advance()]
        name = self.advance()
        self.need("<")
        parts = self.separated(self.type, ">")
        if name == "Map" and len(parts) == 2:
            return t.MapOf(*parts)
        if name not in _GENERICS or len(parts) != 1:
            self.refuse()
        return _GENERICS[name](*parts)

    def field(self) -> tuple[str, t.Type]:
        name = self.advance()
        self.need(":")
        if name.startswith('"'):
            return json.loads(name), self.type()
        if not t.NAME.fullmatch(name):
            self.refuse()
        return name, self.type()
