"""The canonical form of a program, and its hash.

Two programs have the same form if they differ in comments, space, brackets, the order of options, the names of types
and of variables that are no inputs or outputs, and the way in which functions are named (imports, aliases).
"""

import hashlib
import json
from dataclasses import fields
from typing import Any

from pallas_cst import syntax as s
from pallas_cst.check import Checked


def structural_hash(checked: Checked) -> str:
    """SHA-256 of the canonical form, as 64 hex digits."""
    return hashlib.sha256(canonical(checked).encode()).hexdigest()


def source_hash(source: str) -> str:
    """SHA-256 of the source, as 64 hex digits."""
    return hashlib.sha256(source.encode()).hexdigest()


def canonical(checked: Checked) -> str:
    """The canonical form, as JSON in one line."""
    return json.dumps(Form(checked).program(), separators=(",", ":"), sort_keys=True)


class Form:
    """Writes expressions as lists: what it is, then its parts. Variables have the number of their declaration."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        declared = (each for each in checked.program.declarations if isinstance(each, s.Input | s.Assignment))
        self._numbers: dict[s.Declaration, int] = {each: number for number, each in enumerate(declared)}

    def program(self) -> Any:
        checked = self.checked
        declared = [
            ["in", each.name.text, str(checked.inputs[each.name.text])]
            if isinstance(each, s.Input)
            else self.expr(each.value)
            for each in checked.program.declarations
            if isinstance(each, s.Input | s.Assignment)
        ]
        outputs = {
            name: [self._numbers[origin], str(checked.outputs[name])] for name, origin in checked.origins.items()
        }
        return {"declared": declared, "outputs": outputs}

    def expr(self, expr: s.Expr) -> Any:
        parts = [self.expr(part) for part in s.parts_of(expr)]
        functions = [each and each.qualified for each in self.checked.functions.get(expr, ())]
        return [type(expr).__name__, *self._own(expr), *functions, *parts]

    def _own(self, expr: s.Expr) -> list[Any]:
        """What an expression has besides its functions and the expressions in it."""
        match expr:
            case s.Constant(value):
                return [type(value).__name__, value if not isinstance(value, float) else repr(value)]
            case s.Variable(name):
                origin = self.checked.variables[expr]
                return [name if origin is None else self._numbers[origin]]
            case s.Interpolation(texts):
                return list(texts)
            case s.RecordOf(entries):
                return [name for name, _ in entries]
            case s.Call(_, _, options):
                given = {each.name: getattr(options, each.name) for each in fields(options) if each.name != "fallback"}
                return [{name: str(value) for name, value in given.items() if value is not None}]
            case s.Postfix(_, steps):
                return [step.field if isinstance(step, s.FieldAccess) else list(step.fields) for step in steps]
            case s.Arithmetic(_, rest):
                return [operator for operator, _ in rest]
            case s.Comparison(_, operator) | s.Logic(operator):
                return [operator]
            case s.Not(_, times):
                return [times % 2]
            case s.Match(_, cases):
                return [self._pattern(pattern) for pattern, _ in cases]
            case s.Lambda(parameters):
                return [name.text for name, _ in parameters]
            case _:
                return []

    def _pattern(self, pattern: s.Pattern) -> Any:
        match pattern:
            case s.FieldsPattern(names):
                return list(names)
            case s.TypePattern():
                return str(self.checked.tested[pattern])
            case s.AnyPattern():
                return "_"
