"""Check the types of a program, and resolve what its names stand for.

`check` follows the Constellation engine: which programs are accepted, and which code each fault has. Two things are
ours. All faults of a program are found, not only those of the first faulty declaration, which are the first ones here.
And arithmetic with a `Float` gives a `Float`, where the engine says `Int` and computes a float.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import assert_never

from pallas_cst import syntax as s
from pallas_cst import types as t
from pallas_cst.faults import Code, Fault, Faulty, Span, Warned
from pallas_cst.functions import Function, Functions, Imports
from pallas_cst.stdlib import STANDARD

_NUMBERS = (t.INT, t.FLOAT)
_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
_COMPARISONS: dict[tuple[str, t.Type], str] = {
    ("==", t.INT): "eq-int",
    ("!=", t.INT): "eq-int",
    ("<", t.INT): "lt",
    (">", t.INT): "gt",
    ("<=", t.INT): "lte",
    (">=", t.INT): "gte",
    ("==", t.STRING): "eq-string",
    ("!=", t.STRING): "eq-string",
}
_MANY_RETRIES = 10
MOST_FAULTS = 1000
"""Faults of a program that are told; further ones are not."""
MOST_PARTS_OUTSIDE = 5 * t.MOST_PARTS
"""Parts of the types of all inputs and outputs of a program."""
_MOST_STEPS, _MOST_MERGED = 100_000, 2_000_000
"""Comparisons of types in a program, and parts of all types that are made by `+`."""
_LONGEST_MESSAGE, _MOST_NAMES = 2000, 20
_GENERICS = {"List": 1, "Seq": 1, "Candidates": 1, "Optional": 1, "Map": 2}
_PARAMETERS = {1: "T", 2: "K, V"}


@dataclass
class Checked:
    """A program without faults: its types, and what its names stand for.

    `types` has every expression behind those inside it. `functions` has for a call its function, for a comparison its
    function (and `not` for `!=`), and for a chain of arithmetic one entry for each step, None where records are merged.
    `variables` has the input or the assignment behind a variable, None for a parameter of a lambda and a variable of a
    pattern; `origins` has that behind an output, `tested` the type behind `is`. `conversions` has the type of a value
    before it is converted to its type in `types`, and `whole` the calls of tools whose argument is the whole input.
    """

    program: s.Program
    inputs: dict[str, t.Type] = field(default_factory=dict[str, t.Type])
    outputs: dict[str, t.Type] = field(default_factory=dict[str, t.Type])
    types: dict[s.Expr, t.Type] = field(default_factory=dict[s.Expr, t.Type])
    functions: dict[s.Expr, tuple[Function | None, ...]] = field(
        default_factory=dict[s.Expr, tuple[Function | None, ...]]
    )
    variables: dict[s.Variable, s.Declaration | None] = field(default_factory=dict[s.Variable, s.Declaration | None])
    origins: dict[str, s.Declaration] = field(default_factory=dict[str, s.Declaration])
    tested: dict[s.TypePattern, t.Type] = field(default_factory=dict[s.TypePattern, t.Type])
    conversions: dict[s.Expr, t.Type] = field(default_factory=dict[s.Expr, t.Type])
    whole: set[s.Call] = field(default_factory=set[s.Call])
    warnings: list[Warned] = field(default_factory=list[Warned])

    def function(self, call: s.Call) -> Function:
        """The function of a call."""
        [function] = self.functions[call]
        assert function is not None, "only merges have no function"
        return function

    @cached_property
    def numbers(self) -> dict[s.Call, int]:
        """The number of each call, with which its places in a run begin."""
        return {call: number for number, call in enumerate(self.program.calls(), 1)}

    @cached_property
    def waits(self) -> frozenset[s.Expr]:
        """The expressions that wait for a call that `evaluate` leaves to its caller."""
        waits = set[s.Expr]()
        for expr in self.types:
            match expr:
                case s.Call() if not is_computed(expr, self.function(expr)):
                    waits.add(expr)
                case s.Variable():
                    origin = self.variables[expr]
                    if isinstance(origin, s.Assignment) and origin.value in waits:
                        waits.add(expr)
                case _ if any(part in waits for part in s.parts_of(expr)):
                    waits.add(expr)
                case _:
                    pass
        return frozenset(waits)

    @cached_property
    def unused(self) -> list[s.Assignment]:
        """Assignments with calls that nothing refers to. They are made, too: they may have effects."""
        used = {*self.variables.values(), *self.origins.values()}
        declared = (each for each in self.program.declarations if isinstance(each, s.Assignment))
        return [each for each in declared if each not in used and each.value in self.waits]


def is_computed(call: s.Call, function: Function) -> bool:
    """Whether `evaluate` computes a call without its caller."""
    return function.module in STANDARD and call.options is s.NO_OPTIONS


def check(program: s.Program, functions: Functions) -> Checked:
    """The types of a program.

    Raises:
        Faulty: it has faults: all of them, those that the engine finds first.
    """
    checker = _Checker(functions, Checked(program))
    try:
        with t.limited(_MOST_STEPS):
            for declaration in program.declarations:
                checker.declare(declaration)
    except t.TooMuch:
        checker.fault(Code.TYPE_ERROR, "Type error: the types take too long to be checked", Span(0, 0))
    checker.check_size()
    if checker.faults:
        raise Faulty(*checker.faults)
    return checker.checked


class _Known(Exception):
    """Something has a fault that is reported already."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A variable. Without a type its declaration has a fault; without an origin it is local to an expression."""

    kind: t.Type | None
    origin: s.Declaration | None = None


@dataclass
class _Checker:
    functions: Functions
    checked: Checked
    faults: list[Fault] = field(default_factory=list[Fault])
    imports: Imports = field(default_factory=Imports)
    merged: int = 0
    named_types: dict[str, t.Type | None] = field(default_factory=dict[str, t.Type | None])

    def __post_init__(self) -> None:
        self.names: dict[str, _Bound] = {}

    # Faults

    def fault(self, code: Code, message: str, span: Span) -> _Known:
        """Report a fault, and return what to raise."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(Fault(code, message[:_LONGEST_MESSAGE], span))
        return _Known()

    def mismatch(self, wanted: t.Type | str, found: t.Type | str, span: Span) -> _Known:
        sides = [each if isinstance(each, str) else t.told(each) for each in (wanted, found)]
        return self.fault(Code.TYPE_MISMATCH, f"Type mismatch: expected {sides[0]}, found {sides[1]}", span)

    def check_size(self) -> None:
        """Report a fault if the types of inputs and outputs are too large together: they are in many answers."""
        outside = [*self.checked.inputs.values(), *self.checked.outputs.values()]
        if sum(kind.size for kind in outside) > MOST_PARTS_OUTSIDE:
            self.fault(Code.TYPE_ERROR, "Type error: the types of inputs and outputs are too large", Span(0, 0))

    def warn(self, message: str, span: Span) -> None:
        self.checked.warnings.append(Warned(message, span))

    def resolve(self, name: str, span: Span, *, tools: bool = False) -> Function:
        try:
            return self.imports.resolve(self.functions, name, span, tools=tools)
        except Faulty as error:
            self.faults += error.faults
            raise _Known from None

    def operator(self, name: str, span: Span) -> Function:
        """The function behind an operator. It is visible without an import, and no tool takes its place."""
        known = [each for each in self.functions.named(name) if not each.tool]
        return known[0] if len(known) == 1 else self.resolve(name, span)

    def bounded(self, kind: t.Type, span: Span) -> t.Type:
        """The type itself, if it is not too large."""
        if t.is_too_large(kind):
            raise self.fault(Code.TYPE_ERROR, "Type error: the type is too large", span)
        return kind

    # Declarations

    def declare(self, declaration: s.Declaration) -> None:
        match declaration:
            case s.TypeDeclaration(name, definition):
                self.named_types[name.text] = self.tried_type(definition)
            case s.Input():
                self._declare_input(declaration)
            case s.Assignment(name, value):
                self.names[name.text] = _Bound(self._tried(value), declaration)
            case s.Output(name):
                if declaration.annotations:
                    self.warn("@sink has no effect outside streaming", name.span)
                self._declare_output(name)
            case s.Use():
                self._use(declaration)

    def _declare_input(self, declaration: s.Input) -> None:
        kind = self.tried_type(declaration.type)
        for annotation in declaration.annotations:
            if annotation.kind == "example" and annotation.value is not None and kind is not None:
                self._tried(annotation.value, kind)
            elif annotation.kind == "source":
                self.warn("@source has no effect outside streaming", declaration.name.span)
        self.names[declaration.name.text] = _Bound(kind, declaration)
        if kind is not None:
            self.checked.inputs[declaration.name.text] = kind

    def _declare_output(self, name: s.Name) -> None:
        bound = self.names.get(name.text)
        if bound is None:
            self.fault(Code.UNDEFINED_VARIABLE, f"Undefined variable: {name.text}", name.span)
        elif bound.kind is not None and bound.origin is not None and self._is_data(bound.kind, name.span):
            self.checked.outputs[name.text] = bound.kind
            self.checked.origins[name.text] = bound.origin

    def _is_data(self, kind: t.Type, span: Span) -> bool:
        """Whether values of a type can leave the program; if not, the fault is reported."""
        if not t.is_data(kind):
            self.fault(Code.TYPE_ERROR, "Type error: a lambda can only be the argument of a function", span)
            return False
        return True

    def _use(self, declaration: s.Use) -> None:
        namespace = declaration.namespace
        if not self.functions.has_namespace(namespace.text):
            self.fault(Code.UNDEFINED_NAMESPACE, f"Undefined namespace: {namespace.text}", namespace.span)
        elif declaration.alias is not None:
            self.imports.aliases[declaration.alias.text] = namespace.text
        else:
            self.imports.namespaces.append(namespace.text)

    def _tried(self, value: s.Expr, wanted: t.Type | None = None) -> t.Type | None:
        """The type of an expression, None if it has a fault."""
        try:
            return self.infer(value) if wanted is None else self.expect(value, wanted)
        except _Known:
            return None

    def tried_type(self, written: s.TypeExpr) -> t.Type | None:
        try:
            return self.type_of(written)
        except _Known:
            return None

    # Types as they are written

    def type_of(self, written: s.TypeExpr) -> t.Type:
        match written:
            case s.NamedType(name, None, span):
                return self._named_type(name, span)
            case s.NamedType(name, parameters, span):
                return self.bounded(self._generic(name, parameters or (), span), span)
            case s.RecordType(fields, span):
                found = self.all(self.tried_type(kind) for _, kind in fields)
                return self.bounded(t.Record(dict(zip((name for name, _ in fields), found, strict=True))), span)
            case s.UnionType(members, span):
                return self.bounded(t.union(self.all(map(self.tried_type, members))), span)
            case s.MergedType(parts, span):
                first, *rest = self.all(map(self.tried_type, parts))
                for kind in rest:
                    first = self.merge(first, kind, span)
                return first
            case _:
                assert_never(written)

    def _named_type(self, name: str, span: Span) -> t.Type:
        if (primitive := t.PRIMITIVES.get(name)) is not None:
            return primitive
        if name not in self.named_types:
            if name == str(t.JSON):
                return t.JSON
            hint = f" (did you mean {name}<{_PARAMETERS[_GENERICS[name]]}>?)" if name in _GENERICS else ""
            raise self.fault(Code.UNDEFINED_TYPE, f"Undefined type: {name}{hint}", span)
        if (known := self.named_types[name]) is None:
            raise _Known
        return known

    def _generic(self, name: str, written: Sequence[s.TypeExpr], span: Span) -> t.Type:
        if _GENERICS.get(name) != len(written):
            raise self.fault(Code.UNDEFINED_TYPE, f"Undefined type: {name}<...>", span)
        found = self.all(map(self.tried_type, written))
        match name:
            case "List":
                return t.ListOf(found[0])
            case "Optional":
                return t.OptionalOf(found[0])
            case "Map":
                return t.MapOf(found[0], found[1])
            case _:
                return t.SeqOf(found[0])

    def all[T](self, found: Iterable[T | None]) -> list[T]:
        """All values, once every one of them has been found."""
        values = list(found)
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            raise _Known
        return known

    def merge(self, left: t.Type, right: t.Type, span: Span) -> t.Type:
        if (kind := t.merged(left, right)) is None:
            raise self.fault(Code.INCOMPATIBLE_MERGE, f"Cannot merge {t.told(left)} with {t.told(right)}", span)
        self.merged += kind.size
        if self.merged > _MOST_MERGED:
            raise t.TooMuch
        return self.bounded(kind, span)

    # Expressions

    def expect(self, value: s.Expr, wanted: t.Type) -> t.Type:
        """The type of an expression where a value of type `wanted` is needed."""
        match value, wanted:
            case s.Lambda(), t.Function():
                found: t.Type = self._lambda(value, wanted)
            case s.ListOf([]), t.ListOf():
                found = wanted
            case s.RecordOf(), t.Record():
                found = self._record(value, wanted)
            case _:
                found = self.infer(value)
        if not t.fits(found, wanted):
            raise self.mismatch(wanted, found, value.span)
        return self.converted(value, found, wanted)

    def converted(self, value: s.Expr, found: t.Type, wanted: t.Type) -> t.Type:
        """The type of an expression that fits `wanted`: that type, if it has to be converted at run time."""
        if isinstance(wanted, t.Function) or t.fits(found, wanted, t.Rule.KNOWN):
            self.checked.types[value] = found
        else:
            self.checked.conversions[value], self.checked.types[value] = found, wanted
        return self.checked.types[value]

    def infer(self, value: s.Expr) -> t.Type:
        """The type of an expression.

        Raises:
            _Known: it has faults, which are reported.
        """
        found = self.bounded(self._infer(value), value.span)
        self.checked.types[value] = found
        return found

    def infer_all(self, values: Iterable[s.Expr]) -> list[t.Type]:
        """The types of expressions, once the faults of all of them are known."""
        return self.all([self._tried(value) for value in values])

    def _infer(self, value: s.Expr) -> t.Type:
        match value:
            case s.Variable():
                return self._variable(value)
            case s.Constant(constant):
                return t.PRIMITIVE_OF[type(constant)]
            case s.Interpolation():
                kinds = self.infer_all(value.values)
                if False in [self._is_data(kind, each.span) for each, kind in zip(value.values, kinds, strict=True)]:
                    raise _Known
                return t.STRING
            case s.ListOf(items):
                return t.ListOf(t.common(self.infer_all(items)) if items else t.NOTHING)
            case s.RecordOf():
                return self._record(value, None)
            case s.Call():
                return self._call(value)
            case s.Postfix():
                return self._postfix(value)
            case s.Arithmetic():
                return self._arithmetic(value)
            case s.Comparison():
                return self._comparison(value)
            case s.Logic(_, operands):
                for operand, kind in zip(operands, self.infer_all(operands), strict=True):
                    self._must_be_boolean(kind, operand)
                return t.BOOLEAN
            case s.Not(operand):
                self._must_be_boolean(self.infer(operand), operand)
                return t.BOOLEAN
            case s.Guard(guarded, condition):
                kind, decides = self.infer_all((guarded, condition))
                self._must_be_boolean(decides, condition)
                return t.OptionalOf(kind)
            case s.Coalesce():
                return self._coalesce(value)
            case s.If(condition, then, otherwise):
                decides, *kinds = self.infer_all((condition, then, otherwise))
                self._must_be_boolean(decides, condition)
                return t.common(kinds)
            case s.Branch():
                return self._branch(value)
            case s.Match():
                return self._match(value)
            case s.Lambda():
                return self._lambda(value, None)
            case _:
                assert_never(value)

    def _must_be_boolean(self, kind: t.Type, value: s.Expr) -> None:
        if kind not in (t.BOOLEAN, t.JSON):
            raise self.mismatch(t.BOOLEAN, kind, value.span)
        self.converted(value, kind, t.BOOLEAN)

    def _variable(self, value: s.Variable) -> t.Type:
        if value.name not in self.names:
            raise self.fault(Code.UNDEFINED_VARIABLE, f"Undefined variable: {value.name}", value.span)
        bound = self.names[value.name]
        if bound.kind is None:
            raise _Known
        self.checked.variables[value] = bound.origin
        return bound.kind

    def _record(self, value: s.RecordOf, wanted: t.Record | None) -> t.Type:
        known = wanted.fields if wanted else {}
        found = self.all([self._tried(each, known.get(name)) for name, each in value.fields])
        kinds = dict(zip((name for name, _ in value.fields), found, strict=True))
        if missing := [name for name in known if name not in kinds]:
            message = f"Type error: the record lacks the required field(s) {_some(missing)}"
            raise self.fault(Code.TYPE_ERROR, message, value.span)
        return t.Record(kinds)

    def _postfix(self, value: s.Postfix) -> t.Type:
        kind = self.infer(value.source)
        for step in value.steps:
            kind = self.bounded(self._step(kind, step), step.span)
        return kind

    def _step(self, source: t.Type, step: s.FieldAccess | s.Projection) -> t.Type:
        """The type of what is taken from a record, or from each record of a list or sequence."""
        match source:
            case t.ListOf(t.Record() as record):
                return t.ListOf(self._of_record(record, step))
            case t.SeqOf(t.Record() as record):
                return t.SeqOf(self._of_record(record, step))
            case t.Record():
                return self._of_record(source, step)
            case t.JSON if isinstance(step, s.FieldAccess):
                return t.JSON
            case _:
                what = "Projection" if isinstance(step, s.Projection) else "Field access"
                raise self.fault(Code.TYPE_ERROR, f"{what} requires a record, found {t.told(source)}", step.span)

    def _of_record(self, record: t.Record, step: s.FieldAccess | s.Projection) -> t.Type:
        known = _some(record.fields) or "none"
        match step:
            case s.FieldAccess(field_name, span):
                if field_name not in record.fields:
                    message = f"There is no field {field_name!r}; the fields are {known}"
                    raise self.fault(Code.INVALID_FIELD_ACCESS, message, span)
                return record.fields[field_name]
            case s.Projection(fields, span):
                missing = [name for name in fields if name not in record.fields]
                for name in missing:
                    message = f"There is no field {name!r} to project; the fields are {known}"
                    self.fault(Code.INVALID_PROJECTION, message, span)
                if missing:
                    raise _Known
                return t.Record({name: record.fields[name] for name in fields})

    # Operators

    def _arithmetic(self, value: s.Arithmetic) -> t.Type:
        kind, *kinds = self.infer_all([value.first, *(operand for _, operand in value.rest)])
        if kind == t.JSON and kinds[0] in _NUMBERS:
            kind = self.converted(value.first, kind, kinds[0])
        functions: list[Function | None] = []
        for (operator, operand), right in zip(value.rest, kinds, strict=True):
            span = Span(value.span.start, operand.span.end)
            if operator == "+" and _is_mergeable(kind) and _is_mergeable(right):
                kind = self.merge(kind, right, span)
                functions.append(None)
                continue
            if right == t.JSON and kind in _NUMBERS:
                right = self.converted(operand, right, kind)
            if kind not in _NUMBERS or right not in _NUMBERS:
                message = f"Operator {operator!r} is not supported for {t.told(kind)} and {t.told(right)}"
                if operator == "+" and t.STRING in (kind, right):
                    message += '; texts are joined by concat(a, b) or "${a}${b}"'
                raise self.fault(Code.UNSUPPORTED_ARITHMETIC, message, span)
            function = self.operator(_ARITHMETIC[operator], span)
            functions.append(function)
            kind = t.FLOAT if t.FLOAT in (kind, right) else function.returns
        self.checked.functions[value] = tuple(functions)
        return kind

    def _comparison(self, value: s.Comparison) -> t.Type:
        left, right = self.infer_all((value.left, value.right))
        if left == t.JSON:
            left = self.converted(value.left, left, right)
        elif right == t.JSON:
            right = self.converted(value.right, right, left)
        if left != right:
            raise self.mismatch(left, right, value.span)
        name = _COMPARISONS.get((value.operator, left))
        if name is None:
            known = "Int and String" if value.operator in ("==", "!=") else "Int"
            message = (
                f"Operator {value.operator!r} is not supported for {t.told(left)} and {t.told(right)}; "
                f"it compares values of {known}"
            )
            raise self.fault(Code.UNSUPPORTED_COMPARISON, message, value.span)
        functions = [self.operator(name, value.span)]
        if value.operator == "!=":
            functions.append(self.operator("not", value.span))
        self.checked.functions[value] = tuple(functions)
        return functions[-1].returns

    def _coalesce(self, value: s.Coalesce) -> t.Type:
        """`a ?? b ?? c` is `a ?? (b ?? c)`. A `Json` on the left is there unless it is null."""
        *kinds, kind = self.infer_all(value.operands)
        places = list(pairwise(value.operands))
        for left, (operand, right) in zip(reversed(kinds), reversed(places), strict=True):
            if left == t.JSON and t.fits(kind, t.JSON):
                kind = t.JSON
                continue
            if not isinstance(left, t.OptionalOf):
                message = f"The left side of ?? must be Optional, found {t.told(left)}"
                raise self.fault(Code.TYPE_ERROR, message, operand.span)
            if kind not in (left.inner, left):
                raise self.mismatch(left.inner, kind, right.span)
        return kind

    def _branch(self, value: s.Branch) -> t.Type:
        conditions = [condition for condition, _ in value.cases]
        results = [*(result for _, result in value.cases), value.otherwise]
        kinds = self.infer_all([*conditions, *results])
        for condition, kind in zip(conditions, kinds, strict=False):
            self._must_be_boolean(kind, condition)
        return t.common(kinds[len(conditions) :])

    # Match

    def _match(self, value: s.Match) -> t.Type:
        kind = self.infer(value.value)
        members = frozenset(t.members_of(kind))
        covered, results = set[t.Type](), list[t.Type | None]()
        for pattern, result in value.cases:
            try:
                matched, bound = self._pattern(pattern, members)
            except _Known:
                results.append(None)
                continue
            covered |= matched
            results.append(self._within(bound, result))
        kinds = self.all(results)
        if missing := members - covered:
            message = f"Match on {t.told(kind)} is not exhaustive: {_some(sorted(map(t.told, missing)))} is not covered"
            raise self.fault(Code.TYPE_ERROR, message, value.span)
        return t.common(kinds)

    def _within(self, bound: dict[str, t.Type], value: s.Expr, wanted: t.Type | None = None) -> t.Type | None:
        """The type of an expression with further variables."""
        outside = self.names
        self.names = outside | {name: _Bound(kind) for name, kind in bound.items()}
        try:
            return self._tried(value, wanted)
        finally:
            self.names = outside

    def _pattern(self, pattern: s.Pattern, members: frozenset[t.Type]) -> tuple[frozenset[t.Type], dict[str, t.Type]]:
        """The members that a pattern matches, and the variables that it binds."""
        match pattern:
            case s.AnyPattern():
                return members, {}
            case s.FieldsPattern(fields, span):
                records = [each for each in members if isinstance(each, t.Record) and each.fields.keys() >= set(fields)]
                if not records:
                    raise self._unmatched(f"{{ {', '.join(fields)} }}", members, span)
                bound = {name: t.common(record.fields[name] for record in records) for name in fields}
                return frozenset[t.Type](records), bound
            case s.TypePattern(name, span):
                kind = self._named_type(name, span)
                if kind not in members:
                    raise self._unmatched(f"is {name}", members, span)
                self.checked.tested[pattern] = kind
                return frozenset((kind,)), {}

    def _unmatched(self, pattern: str, members: Iterable[t.Type], span: Span) -> _Known:
        return self.mismatch(" | ".join(sorted(map(t.told, members))), f"the pattern {pattern}", span)

    # Lambdas and calls

    def _lambda(self, value: s.Lambda, wanted: t.Function | None) -> t.Type:
        if wanted is not None and len(value.parameters) != len(wanted.parameters):
            message = f"The lambda has {len(value.parameters)} parameter(s), expected {len(wanted.parameters)}"
            raise self.fault(Code.TYPE_ERROR, message, value.span)
        given: Sequence[t.Type | None] = wanted.parameters if wanted else [None] * len(value.parameters)
        pairs = zip(value.parameters, given, strict=True)
        kinds = self.all([self._parameter(name, written, kind) for (name, written), kind in pairs])
        bound = {name.text: kind for (name, _), kind in zip(value.parameters, kinds, strict=True)}
        body = self._within(bound, value.body, wanted.returns if wanted else None)
        if body is None:
            raise _Known
        return t.Function(tuple(kinds), body)

    def _parameter(self, name: s.Name, written: s.TypeExpr | None, given: t.Type | None) -> t.Type | None:
        if written is None:
            if given is None:
                message = f"The parameter {name.text!r} of the lambda needs a type: ({name.text}: Int) => ..."
                self.fault(Code.TYPE_ERROR, message, name.span)
            return given
        kind = self.tried_type(written)
        if kind is not None and given is not None and not t.fits(given, kind):
            self.mismatch(given, kind, written.span)
            return None
        return kind

    def _call(self, value: s.Call) -> t.Type:
        function = self.resolve(value.name, value.span, tools=True)
        fits = self._tool_arguments(value, function) if function.tool else self._arguments(value, function)
        before = len(self.faults)
        if value.options is not s.NO_OPTIONS:
            self._options(value.options, function.returns, value.span)
        if not fits or len(self.faults) > before:
            raise _Known
        self.checked.functions[value] = (function,)
        return t.outcome(function.returns) if value.options.on_error == "wrap" else function.returns

    def _arguments(self, value: s.Call, function: Function) -> bool:
        """Whether the arguments of a call fit; if not, the faults are reported."""
        if len(value.arguments) != len(function.parameters):
            raise self._miscounted(value, str(len(function.parameters)))
        pairs = zip(value.arguments, function.parameters, strict=True)
        return None not in [self._tried(each, kind) for each, (_, kind) in pairs]

    def _tool_arguments(self, value: s.Call, function: Function) -> bool:
        """Whether the arguments of a tool fit; if not, the faults are reported."""
        least, most = function.least, len(function.parameters)
        try:
            kinds = self.infer_all(value.arguments)
        except _Known:
            return False
        if function.takes_whole(kinds):
            self.checked.whole.add(value)
            self.converted(value.arguments[0], kinds[0], function.whole)
            return True
        if not least <= len(kinds) <= most:
            raise self._miscounted(value, str(most) if least == most else f"{least} to {most}")
        unfit = False
        for each, found, (_, wanted) in zip(value.arguments, kinds, function.parameters, strict=False):
            if t.fits(found, wanted, t.Rule.TOOL):
                self.converted(each, found, wanted)
            else:
                self.mismatch(wanted, found, each.span)
                unfit = True
        return not unfit

    def _miscounted(self, value: s.Call, wanted: str) -> _Known:
        message = f"{value.name} takes {wanted} argument(s), found {len(value.arguments)}"
        return self.fault(Code.TYPE_ERROR, message, value.span)

    def _options(self, options: s.Options, returns: t.Type, span: Span) -> None:
        if options.fallback is not None:
            kind = self._tried(options.fallback)
            if kind is not None and not t.fits(kind, returns):
                message = f"The fallback is of type {t.told(kind)}, but the call returns {t.told(returns)}"
                self.fault(Code.FALLBACK_MISMATCH, message, options.fallback.span)
            elif kind is not None:
                self.converted(options.fallback, kind, returns)
        self._check_ranges(options, span)
        for name, needed in (
            ("delay", "retry"),
            ("backoff", "delay"),
            ("backoff", "retry"),
            ("cache_backend", "cache"),
            ("batch_timeout", "batch"),
        ):
            if getattr(options, name) is not None and getattr(options, needed) is None:
                self.warn(f"{name} has no effect without {needed}", span)
        if options.retry is not None and options.retry > _MANY_RETRIES:
            self.warn(f"retry: {options.retry} is a lot; consider at most {_MANY_RETRIES}", span)
        if options.window is not None and options.batch is not None:
            self.warn("window and batch exclude each other", span)
        for name in ("batch", "batch_timeout", "window", "checkpoint", "join"):
            if getattr(options, name) is not None:
                self.warn(f"{name} has no effect outside streaming", span)

    def _check_ranges(self, options: s.Options, span: Span) -> None:
        values = {
            "concurrency": options.concurrency,
            "throttle": options.throttle and options.throttle.count,
            "batch": options.batch,
            **{
                name: duration and duration.value
                for name, duration in (
                    ("timeout", options.timeout),
                    ("delay", options.delay),
                    ("cache", options.cache),
                    ("batch_timeout", options.batch_timeout),
                    ("checkpoint", options.checkpoint),
                )
            },
        }
        for name, value in values.items():
            if value == 0:
                message = f"Invalid value of {name}: {getattr(options, name)} (must be greater than 0)"
                self.fault(Code.INVALID_OPTION, message, span)


def _some(names: Iterable[str]) -> str:
    """Names in a message, the first ones of many."""
    first = list(islice(names, _MOST_NAMES + 1))
    return ", ".join(first[:_MOST_NAMES]) + (", …" if len(first) > _MOST_NAMES else "")


def _is_mergeable(kind: t.Type) -> bool:
    return isinstance(kind, t.Record) or (isinstance(kind, t.ListOf | t.SeqOf) and isinstance(kind.item, t.Record))
