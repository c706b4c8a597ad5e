"""Compute the outputs of a checked program.

Functions of the standard library are computed here, all others by the caller. Values are computed on demand: what
stands in a branch that is not taken is not called. Calls that need nothing of each other run at the same time.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

from pallas_cst import syntax as s
from pallas_cst import types as t
from pallas_cst.check import Checked
from pallas_cst.faults import Span
from pallas_cst.functions import Function
from pallas_cst.stdlib import STANDARD, Failed
from pallas_cst.values import Value, inside, is_list, is_object, is_of, some, text_of

type CallFunction = Callable[[s.Call, Function, Sequence[Value]], Awaitable[Value]]
"""Calls a function that is not of the standard library."""

type Lambda = Callable[..., Awaitable[Value]]


class RunFailed(Exception):
    """The program cannot be computed. `span` is the expression that failed."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


async def evaluate(checked: Checked, inputs: Mapping[str, Value], call: CallFunction) -> dict[str, Value]:
    """The outputs by name. `inputs` are values of their types; each input that is needed is there.

    Raises:
        RunFailed: a function of the standard library cannot compute a result.
        Exception: what `call` raises; the other calls are cancelled.
    """
    evaluator = _Evaluator(checked, inputs, call, waiting(checked))
    try:
        async with asyncio.TaskGroup() as tasks:
            evaluator.tasks = tasks
            found = {name: evaluator.start(origin) for name, origin in checked.origins.items()}
            for unused in _unused(checked, evaluator.waits):
                evaluator.start(unused)
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return {name: task.result() for name, task in found.items()}


def _first(error: BaseException) -> BaseException:
    """The first exception in a group of groups."""
    while inner := getattr(error, "exceptions", ()):
        error = inner[0]
    return error


def waiting(checked: Checked) -> frozenset[s.Expr]:
    """The expressions that wait for a call of a function that is not of the standard library."""
    waits = set[s.Expr]()
    for expr in checked.types:
        match expr:
            case s.Call() if _function(checked, expr).module not in STANDARD:
                waits.add(expr)
            case s.Variable():
                origin = checked.variables[expr]
                if isinstance(origin, s.Assignment) and origin.value in waits:
                    waits.add(expr)
            case _ if any(part in waits for part in s.parts_of(expr)):
                waits.add(expr)
            case _:
                pass
    return frozenset(waits)


def _unused(checked: Checked, waits: frozenset[s.Expr]) -> list[s.Declaration]:
    """Assignments with calls that nothing refers to. They are made, too: they may have effects."""
    used = {*checked.variables.values(), *checked.origins.values()}
    declared = (each for each in checked.program.declarations if isinstance(each, s.Assignment))
    return [each for each in declared if each not in used and each.value in waits]


def _function(checked: Checked, call: s.Call) -> Function:
    [function] = checked.functions[call]
    assert function is not None, "only merges have no function"
    return function


type _Locals = Mapping[str, Value]
"""Parameters of lambdas, and variables of patterns."""


@dataclass
class _Evaluator:
    checked: Checked
    inputs: Mapping[str, Value]
    call: CallFunction
    waits: frozenset[s.Expr]
    tasks: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    _started: dict[s.Declaration, asyncio.Task[Value]] = field(
        default_factory=dict[s.Declaration, "asyncio.Task[Value]"]
    )

    def start(self, origin: s.Declaration) -> asyncio.Task[Value]:
        """The computation of an input or a variable, which is started once."""
        if origin not in self._started:
            self._started[origin] = self.tasks.create_task(self._declared(origin))
        return self._started[origin]

    async def _declared(self, origin: s.Declaration) -> Value:
        if isinstance(origin, s.Assignment):
            return await self.value(origin.value, {})
        assert isinstance(origin, s.Input), "a variable is an input or an assignment"
        return self.inputs[origin.name.text]

    async def values(self, expressions: Sequence[s.Expr], scope: _Locals) -> list[Value]:
        """The values of expressions; calls in them run at the same time."""
        if sum(each in self.waits for each in expressions) <= 1:
            return [await self.value(each, scope) for each in expressions]
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(self.value(each, scope)) for each in expressions]
        return [each.result() for each in started]

    async def value(self, expr: s.Expr, scope: _Locals) -> Value:
        match expr:
            case s.Constant(constant):
                return constant
            case s.Variable(name):
                origin = self.checked.variables[expr]
                return scope[name] if origin is None else await self.start(origin)
            case s.Interpolation(texts, parts):
                found = await self.values(parts, scope)
                return texts[0] + "".join(text_of(each) + text for each, text in zip(found, texts[1:], strict=True))
            case s.ListOf(items):
                return await self.values(items, scope)
            case s.RecordOf(fields):
                found = await self.values([each for _, each in fields], scope)
                return dict(zip((name for name, _ in fields), found, strict=True))
            case s.Call():
                return await self._call(expr, scope)
            case s.Postfix(source, steps):
                value = await self.value(source, scope)
                for step in steps:
                    value = _taken(value, step)
                return value
            case s.Arithmetic():
                return await self._arithmetic(expr, scope)
            case s.Comparison():
                operands = await self.values((expr.left, expr.right), scope)
                return await self._compared(expr, operands)
            case s.Logic():
                return await self._logic(expr, scope)
            case s.Not(operand, times):
                return (await self.value(operand, scope)) != bool(times % 2)
            case s.Guard(guarded, condition):
                return some(await self.value(guarded, scope)) if await self.value(condition, scope) else None
            case s.Coalesce():
                return await self._coalesce(expr, scope)
            case s.If(condition, then, otherwise):
                return await self.value(then if await self.value(condition, scope) else otherwise, scope)
            case s.Branch(cases, otherwise):
                for condition, result in cases:
                    if await self.value(condition, scope):
                        return await self.value(result, scope)
                return await self.value(otherwise, scope)
            case s.Match():
                return await self._match(expr, scope)
            case s.Lambda():
                return self._lambda(expr, scope)
            case _:
                assert_never(expr)

    def _lambda(self, expr: s.Lambda, scope: _Locals) -> Lambda:
        names = [name.text for name, _ in expr.parameters]

        async def call(*arguments: Value) -> Value:
            return await self.value(expr.body, {**scope, **dict(zip(names, arguments, strict=True))})

        return call

    async def _call(self, expr: s.Call, scope: _Locals) -> Value:
        arguments = await self.values(expr.arguments, scope)
        function = _function(self.checked, expr)
        if function.module in STANDARD:
            return await self._compute(expr, function, arguments)
        return await self.call(expr, function, arguments)

    async def _compute(self, expr: s.Expr, function: Function, arguments: list[Value]) -> Value:
        """The result of a function of the standard library. A lambda is called for all items before."""
        *values, last = arguments
        if isinstance(function.parameters[-1][1], t.Function):
            call: Lambda = last
            last = partial(_next, iter([await call(item) for item in values[0]]))
        try:
            return STANDARD[function.module].compute(*values, last)
        except Failed as error:
            raise RunFailed(str(error), expr.span) from None

    async def _compared(self, expr: s.Comparison, operands: list[Value]) -> bool:
        function, *negation = self.checked.functions[expr]
        assert function is not None, "only merges have no function"
        result = await self._compute(expr, function, operands)
        return not result if negation else result

    async def _arithmetic(self, expr: s.Arithmetic, scope: _Locals) -> Value:
        left, *others = await self.values([expr.first, *(operand for _, operand in expr.rest)], scope)
        for (operator, _), right, function in zip(expr.rest, others, self.checked.functions[expr], strict=True):
            if function is None:
                left = _merged(left, right, expr.span)
            elif isinstance(left, float) or isinstance(right, float):
                left = _floats(operator, left, right)
            else:
                left = await self._compute(expr, function, [left, right])
        return left

    async def _logic(self, expr: s.Logic, scope: _Locals) -> bool:
        decisive = expr.operator == "or"
        for operand in expr.operands:
            if (await self.value(operand, scope)) is decisive:
                return decisive
        return not decisive

    async def _coalesce(self, expr: s.Coalesce, scope: _Locals) -> Value:
        """The first value that is there. It stays an Optional if the whole expression is one."""
        *optionals, last = expr.operands
        whole = self.checked.types[expr]
        for operand in optionals:
            value = await self.value(operand, scope)
            if value is not None:
                return value if self.checked.types[operand] == whole else inside(value)
        return await self.value(last, scope)

    async def _match(self, expr: s.Match, scope: _Locals) -> Value:
        value = await self.value(expr.value, scope)
        for pattern, result in expr.cases:
            match pattern:
                case s.AnyPattern():
                    return await self.value(result, scope)
                case s.FieldsPattern(fields):
                    if is_object(value) and all(name in value for name in fields):
                        return await self.value(result, {**scope, **{name: value[name] for name in fields}})
                case s.TypePattern():
                    if is_of(value, self.checked.tested[pattern]):
                        return await self.value(result, scope)
        raise RunFailed("no pattern matches the value", expr.span)


def _next(results: Iterator[Value], _item: Value) -> Value:
    return next(results)


def _taken(value: Value, step: s.FieldAccess | s.Projection) -> Value:
    """What a step takes from a record, or from each record of a list; nothing from what is no record."""
    if is_list(value):
        return [_taken(each, step) for each in value]
    record = value if is_object(value) else dict[str, Value]()
    if isinstance(step, s.FieldAccess):
        return record.get(step.field)
    return {name: record[name] for name in step.fields}


def _merged(left: Value, right: Value, span: Span) -> Value:
    """Two records as one, or the records of a list with another record, or those of two lists in pairs."""
    if is_list(left) and is_list(right):
        if len(left) != len(right):
            raise RunFailed(f"lists of {len(left)} and {len(right)} records cannot be merged", span)
        return [a | b for a, b in zip(left, right, strict=True)]
    if is_list(left):
        return [each | right for each in left]
    if is_list(right):
        return [left | each for each in right]
    return left | right


def _floats(operator: s.ArithmeticOperator, a: float, b: float) -> float:
    """The result as IEEE 754 has it, which also defines a division by zero."""
    match operator:
        case "+":
            return float(a) + b
        case "-":
            return float(a) - b
        case "*":
            return float(a) * b
        case "/" if b == 0:
            return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)
        case "/":
            return float(a) / b
