"""What differs between two checked programs (`constellation-mcp-rfc-018.md`, phase 4)."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import unified_diff
from typing import Any

from pallas_cst import syntax as s
from pallas_cst import types as t
from pallas_cst.canonical import Form, structural_hash
from pallas_cst.check import Checked
from pallas_cst.pretty import expr_text, option_texts, pretty

_MOST_LINES = 2_000
"""Longer programs are not compared line by line: 10,000 lines can be made so that it takes 10 s."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What a value was on the left, and what it is on the right; None where it is not given."""

    left: str | None
    right: str | None


@dataclass(frozen=True, slots=True)
class TypeChanges:
    """Inputs or outputs: types by name, of those on one side only, and of those whose type differs."""

    added: Mapping[str, str] = field(default_factory=dict[str, str])
    removed: Mapping[str, str] = field(default_factory=dict[str, str])
    changed: Mapping[str, Changed] = field(default_factory=dict[str, Changed])


@dataclass(frozen=True, slots=True)
class CallText:
    """A call: its function, its number in the program (`Calling.place`), and its text without options."""

    module: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class CallChange:
    """A call of one function on both sides. `arguments` are by parameter, and `options` by name."""

    left: CallText
    right: CallText
    arguments: Mapping[str, Changed]
    options: Mapping[str, Changed]


@dataclass(frozen=True, slots=True)
class CallChanges:
    """Calls on one side only, and calls whose arguments or options differ."""

    added: Sequence[CallText] = ()
    removed: Sequence[CallText] = ()
    changed: Sequence[CallChange] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs. `same`: the structural hashes are equal, and only names and layout can differ.

    An argument differs if it is computed otherwise from inputs and other calls; a change inside another call, or a new
    name of a variable, does not count. `text` is the unified diff of the programs as `pretty` writes them.
    """

    same: bool
    left: str
    right: str
    inputs: TypeChanges
    outputs: TypeChanges
    calls: CallChanges
    text: str

    def as_json(self) -> dict[str, Any]:
        """The difference as JSON. `left` and `right` are the structural hashes."""
        return asdict(self)


def compare(left: Checked, right: Checked) -> Difference:
    """The difference of two programs."""
    hashes = structural_hash(left), structural_hash(right)
    same = hashes[0] == hashes[1]
    return Difference(
        same,
        *hashes,
        _types(left.inputs, right.inputs),
        _types(left.outputs, right.outputs),
        CallChanges() if same else _calls(left, right),
        _text(pretty(left.program), pretty(right.program)),
    )


def _types(left: Mapping[str, t.Type], right: Mapping[str, t.Type]) -> TypeChanges:
    both = [name for name in left if name in right]
    return TypeChanges(
        added={name: str(kind) for name, kind in right.items() if name not in left},
        removed={name: str(kind) for name, kind in left.items() if name not in right},
        changed={name: Changed(str(left[name]), str(right[name])) for name in both if left[name] != right[name]},
    )


def _text(left: str, right: str) -> str:
    before, after = left.splitlines(keepends=True), right.splitlines(keepends=True)
    if max(len(before), len(after)) > _MOST_LINES:
        return "" if before == after else f"(the programs have more than {_MOST_LINES} lines)\n"
    return "".join(unified_diff(before, after, "left", "right"))


# Calls


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A call, and what it is recognized by."""

    text: CallText
    arguments: Mapping[str, str]
    shapes: tuple[str, ...]
    options: Mapping[str, str]
    variable: str


def _calls(left: Checked, right: Checked) -> CallChanges:
    """Calls of one function are the same one if they are equal in all; else in arguments, or variable, or by order."""
    rest_left, rest_right = _calls_of(left), _calls_of(right)
    pairs = list[tuple[_Call, _Call]]()
    keys: list[Callable[[_Call], object]] = [
        lambda call: (call.text.module, call.shapes, sorted(call.options.items())),
        lambda call: (call.text.module, call.shapes),
        lambda call: (call.text.module, call.variable),
        lambda call: call.text.module,
    ]
    for key in keys:
        pairs += _paired(rest_left, rest_right, key)
    changes = [_change(a, b) for a, b in sorted(pairs, key=lambda pair: int(pair[1].text.place))]
    return CallChanges(
        added=[call.text for call in rest_right],
        removed=[call.text for call in rest_left],
        changed=[change for change in changes if change.arguments or change.options],
    )


def _paired(left: list[_Call], right: list[_Call], key: Callable[[_Call], object]) -> list[tuple[_Call, _Call]]:
    """Take the calls with equal keys out of both lists, in their order."""
    waiting = dict[str, list[_Call]]()
    for call in right:
        waiting.setdefault(repr(key(call)), []).append(call)
    pairs = [(call, found.pop(0)) for call in left if (found := waiting.get(repr(key(call))))]
    taken = {call for pair in pairs for call in pair}
    left[:] = [call for call in left if call not in taken]
    right[:] = [call for call in right if call not in taken]
    return pairs


def _change(left: _Call, right: _Call) -> CallChange:
    shapes_left, shapes_right = (dict(zip(call.arguments, call.shapes, strict=False)) for call in (left, right))
    names = list(dict.fromkeys((*left.arguments, *right.arguments)))
    arguments = {
        name: Changed(left.arguments.get(name), right.arguments.get(name))
        for name in names
        if shapes_left.get(name) != shapes_right.get(name)
    }
    options = {
        name: Changed(left.options.get(name), right.options.get(name))
        for name in dict.fromkeys((*left.options, *right.options))
        if left.options.get(name) != right.options.get(name)
    }
    return CallChange(left.text, right.text, arguments, options)


def _calls_of(checked: Checked) -> list[_Call]:
    shapes = _Shapes(checked)
    variables = {each.value: each.name.text for each in checked.program.declarations if isinstance(each, s.Assignment)}
    return [
        _call_of(checked, shapes, call, str(place), variables.get(call, "")) for call, place in checked.numbers.items()
    ]


def _call_of(checked: Checked, shapes: "_Shapes", call: s.Call, place: str, variable: str) -> _Call:
    function = checked.function(call)
    names = [name for name, _ in function.parameters]
    texts = [expr_text(argument) for argument in call.arguments]
    own = CallText(function.qualified, place, f"{call.name}({', '.join(texts)})")
    arguments = dict(zip(names, texts, strict=False))
    return _Call(own, arguments, tuple(map(shapes.of, call.arguments)), option_texts(call.options), variable)


class _Shapes(Form):
    """The canonical form of expressions, in which variables are replaced by their values, and calls by their functions.

    What a variable stands for is a hash, since values made of values made of values grow exponentially.
    """

    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        self._values: dict[s.Declaration, str] = {}
        for each in checked.program.declarations:
            if isinstance(each, s.Assignment):
                self._values[each] = self.of(each.value)

    def of(self, expr: s.Expr) -> str:
        return hashlib.sha256(json.dumps(self.expr(expr)).encode()).hexdigest()

    def expr(self, expr: s.Expr) -> Any:
        match expr:
            case s.Call():
                return ["Call", *(each and each.qualified for each in self.checked.functions[expr])]
            case s.Variable(name):
                origin = self.checked.variables[expr]
                return self._values[origin] if isinstance(origin, s.Assignment) else name
            case _:
                return super().expr(expr)
