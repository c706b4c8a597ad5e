"""The functions that a program may call, and how their names are resolved."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from pallas_cst import types as t
from pallas_cst.faults import Code, Fault, Faulty, Span
from pallas_cst.values import Value, plain


@dataclass(frozen=True, slots=True)
class Function:
    """A function that can be called. `module` is the name under which it is executed.

    A `tool` takes its arguments by `types.Rule.TOOL`, or one record of all of them. Its first `needed` parameters must
    be given (None: all); those behind them are Optional.
    """

    name: str
    parameters: tuple[tuple[str, t.Type], ...]
    returns: t.Type
    module: str
    namespace: str | None = None
    tool: bool = False
    needed: int | None = None

    @property
    def least(self) -> int:
        """How many arguments must be given."""
        return len(self.parameters) if self.needed is None else self.needed

    @property
    def whole(self) -> t.Record:
        """All parameters as one record."""
        return t.Record(dict(self.parameters))

    def takes_whole(self, arguments: Sequence[t.Type]) -> bool:
        """Whether arguments of these types are one record that is the whole input of a tool."""
        if not self.tool or len(arguments) != 1 or not isinstance(record := arguments[0], t.Record):
            return False
        if self.least <= 1 and self.parameters and t.fits(record, self.parameters[0][1], t.Rule.TOOL):
            return False
        needed = {name for name, _ in self.parameters[: self.least]}
        return needed <= record.fields.keys() and t.fits(record, self.whole, t.Rule.TOOL)

    def input_of(self, arguments: Sequence[Value]) -> dict[str, Any]:
        """The arguments as the JSON object that a tool is called with; without those that are left out or None.

        Raises:
            Unfit: one is or has a number that JSON cannot write.
        """
        given = enumerate(zip(self.parameters, arguments, strict=False))
        return {
            name: plain(value, kind, name)
            for index, ((name, kind), value) in given
            if value is not None or index < self.least
        }

    @property
    def qualified(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        parameters = ", ".join(f"{name}: {kind}" for name, kind in self.parameters)
        return f"{self.qualified}({parameters}) -> {self.returns}"


_MOST_SUGGESTIONS = 5
"""Names of one program for which similar ones are looked for."""
_MOST_COMPARED, _LONGEST_COMPARED = 2000, 64


class Functions:
    """All functions, by name."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self.by_qualified: dict[str, Function] = {}
        self._by_name: dict[str, list[Function]] = {}
        for function in functions:
            self.by_qualified[function.qualified] = function
            self._by_name.setdefault(function.name, []).append(function)
        self.namespaces = frozenset(each.namespace for each in self.by_qualified.values() if each.namespace)
        self._prefixes = frozenset(
            ".".join(parts[:length])
            for parts in (name.split(".") for name in (*self.namespaces, *self.by_qualified))
            for length in range(1, len(parts))
        )

    def named(self, name: str) -> list[Function]:
        """The functions of that name in any namespace."""
        return self._by_name.get(name, [])

    def similar(self, name: str) -> list[Function]:
        """The functions that may have been meant by a name: those that differ in case, else a little."""
        namespace, _, bare = name.rpartition(".")
        if len(bare) > _LONGEST_COMPARED:
            return []
        near = {each for each in self._by_name if abs(len(each) - len(bare)) <= 2 and len(each) <= _LONGEST_COMPARED}
        same = {each for each in near if each.casefold() == bare.casefold()}
        close = same or (get_close_matches(bare, near, 3, 0.8) if len(near) <= _MOST_COMPARED else ())
        found = [each for other in sorted(close) for each in self.named(other) if namespace in ("", each.namespace)]
        return found[:3]

    def has_namespace(self, name: str) -> bool:
        """Whether there is a function in this namespace or in one inside it."""
        return name in self.namespaces or name in self._prefixes


@dataclass
class Imports:
    """What a program uses: namespaces, and aliases of namespaces. Without any, every function is visible.

    `suggestions` is for how many more names similar ones are looked for.
    """

    namespaces: list[str] = field(default_factory=list[str])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    suggestions: int = _MOST_SUGGESTIONS

    def resolve(self, functions: Functions, name: str, span: Span, *, tools: bool = True) -> Function:
        """The function that a name stands for; without `tools`, the one behind an operator.

        Raises:
            Faulty: there is none, or more than one.
        """
        first, _, rest = name.partition(".")
        if rest:
            return self._resolve_qualified(functions, name, first, rest, span)
        known = [each for each in functions.named(name) if tools or not each.tool]
        if name in self.aliases:
            raise self._undefined(functions, name, (), span)
        everything = not self.namespaces and not self.aliases
        found = [each for each in known if each.namespace is None or everything or each.namespace in self.namespaces]
        # A tool that anybody adds does not change what a program without its namespace means.
        found = [each for each in found if not each.tool] or found
        if not found:
            raise self._undefined(functions, name, known, span)
        if len(found) > 1:
            names = " or ".join(each.qualified for each in found)
            message = f"Ambiguous function {name!r}: use {names}"
            raise Faulty(Fault(Code.AMBIGUOUS_FUNCTION, message, span))
        return found[0]

    def _resolve_qualified(self, functions: Functions, name: str, first: str, rest: str, span: Span) -> Function:
        aliased = self.aliases.get(first)
        found = functions.by_qualified.get(f"{aliased}.{rest}" if aliased else name)
        if found is not None:
            return found
        namespace = name.rpartition(".")[0]
        if aliased is None and namespace not in functions.namespaces:
            raise Faulty(Fault(Code.UNDEFINED_NAMESPACE, f"Undefined namespace: {namespace}", span))
        whole = f"{aliased}.{rest}" if aliased else name
        raise self._undefined(functions, whole, (), span, written=name)

    def _undefined(
        self, functions: Functions, name: str, known: Iterable[Function], span: Span, *, written: str | None = None
    ) -> Faulty:
        meant = list(known)
        if not meant and self.suggestions:
            self.suggestions -= 1
            meant = functions.similar(name)
        others = " or ".join(each.qualified for each in meant)
        hint = f" (did you mean {others}?)" if others else ""
        return Faulty(Fault(Code.UNDEFINED_FUNCTION, f"Undefined function: {written or name}{hint}", span))
