"""Compute the outputs of a checked program.

Functions of the standard library are computed here; tools, and all calls with options, are left to the caller. Values
are computed on demand: what stands in a branch that is not taken is not called. Calls that need nothing of each other
run at the same time, and so do those for the items of a list.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import assert_never

from pallas_cst import syntax as s
from pallas_cst import types as t
from pallas_cst.check import Checked, is_computed
from pallas_cst.faults import Span
from pallas_cst.functions import Function
from pallas_cst.reach import reach
from pallas_cst.stdlib import STANDARD, Failed, size_made
from pallas_cst.values import Unfit, Value, converted, inside, is_list, is_object, is_of, some, text_of
from pallas_cst.work import Limits, RunFailed, Share, Work

__all__ = ["Calling", "Limits", "MakeCall", "RunFailed", "evaluate"]


@dataclass(frozen=True, slots=True)
class Calling:
    """A call that the caller of `evaluate` makes: of a tool, or with options. It returns a value of the call's type.

    `arguments` are values of the parameters' types; those of a tool that are left out are None (`Function.input_of`
    makes the tool's input of them). `place` is the same in each run of the program with the same values: the number of
    the call in the program (`Program.calls`), and for each lambda around it the index of the item: "7", "7.3".
    `compute` is there for functions of the standard library. `fallback` computes the value of that option.
    """

    call: s.Call
    function: Function
    arguments: list[Value]
    place: str
    compute: Callable[[], Awaitable[Value]] | None
    fallback: Callable[[], Awaitable[Value]] | None


type MakeCall = Callable[[Calling], Awaitable[Value]]

type Lambda = Callable[..., Awaitable[Value]]
"""A lambda; it is called with the step that its calls have in their places, and its arguments."""

_PART = 16
_SMALL_TYPE = 100
"""Parts of a type that is looked at at once."""
_TOGETHER = 1_000
"""Items of a list for which a lambda runs at the same time."""

_LIMITS = Limits()


async def evaluate(
    checked: Checked,
    inputs: Mapping[str, Value],
    call: MakeCall,
    *,
    missing: Collection[str] = (),
    limits: Limits = _LIMITS,
    share: Share | None = None,
) -> dict[str, Value]:
    """The outputs by name. `inputs` are values of their types; each input that is needed is there.

    With inputs `missing`, it is everything that does not wait for them: see `reach.reach`. Inputs and results of calls
    are not measured by `limits`; they are where they come in. `share` is the room for all values.

    Raises:
        RunFailed: a function of the standard library cannot compute a result, a `Json` is not what it is used as, or a
            limit is reached.
        Exception: what `call` raises; the other calls are cancelled.
    """
    evaluator = _Evaluator(checked, inputs, call, Work(limits, share))
    for value in inputs.values():
        await evaluator.work.got(value, Span(0, 0))
    reached = reach(checked, missing)
    async with _together() as evaluator.tasks:
        found = {name: evaluator.start(checked.origins[name]) for name in reached.outputs}
        for unused in checked.unused:
            if unused not in reached.waiting:
                evaluator.start(unused)
    return {name: task.result() for name, task in found.items()}


@asynccontextmanager
async def _together() -> AsyncGenerator[asyncio.TaskGroup]:
    """Tasks of which the first failure is raised as it is."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


def _first(error: BaseException) -> BaseException:
    """The first exception in a group of groups."""
    while inner := getattr(error, "exceptions", ()):
        error = inner[0]
    return error


@dataclass(frozen=True, slots=True)
class _Scope:
    """Parameters of lambdas and variables of patterns, and what the places of calls end with."""

    names: Mapping[str, Value]
    path: str = ""

    def within(self, names: Mapping[str, Value], step: str = "") -> "_Scope":
        return _Scope({**self.names, **names}, self.path + step)


_OUTSIDE = _Scope({})


@dataclass
class _Evaluator:
    checked: Checked
    inputs: Mapping[str, Value]
    call: MakeCall
    work: Work
    tasks: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    _started: dict[s.Declaration, asyncio.Task[Value]] = field(
        default_factory=dict[s.Declaration, "asyncio.Task[Value]"]
    )

    def start(self, origin: s.Declaration) -> asyncio.Task[Value]:
        """The computation of an input or a variable, which is started once."""
        if origin not in self._started:
            self._started[origin] = self.tasks.create_task(self._declared(origin))
        return self._started[origin]

    async def declared(self, origin: s.Declaration) -> Value:
        """The value of an input or a variable. Others may wait for it, so it goes on if this is cancelled."""
        started = self.start(origin)
        return started.result() if started.done() else await asyncio.shield(started)

    async def _declared(self, origin: s.Declaration) -> Value:
        if isinstance(origin, s.Assignment):
            return await self.value(origin.value, _OUTSIDE)
        assert isinstance(origin, s.Input), "a variable is an input or an assignment"
        return self.inputs[origin.name.text]

    async def values(self, expressions: Sequence[s.Expr], scope: _Scope) -> list[Value]:
        """The values of expressions; calls in them run at the same time."""
        waits = self.checked.waits
        if not waits or sum(each in waits for each in expressions) <= 1:
            return [await self.value(each, scope) for each in expressions]
        async with _together() as tasks:
            started = [tasks.create_task(self.value(each, scope)) for each in expressions]
        return [each.result() for each in started]

    async def value(self, expr: s.Expr, scope: _Scope) -> Value:
        """The value of an expression, as one of its type."""
        self.work.steps += 1
        if self.work.steps >= self.work.pause_at:
            await self.work.pause(expr.span)
        match expr:
            case s.Constant(constant):
                return constant
            case s.Variable(name) if expr not in self.checked.conversions:
                origin = self.checked.variables[expr]
                return scope.names[name] if origin is None else await self.declared(origin)
            case _:
                pass
        value = await self._value(expr, scope)
        if (kind := self.checked.conversions.get(expr)) is None:
            return value
        return await self._converted(value, kind, self.checked.types[expr], expr.span)

    async def _converted(self, value: Value, kind: t.Type, wanted: t.Type, span: Span) -> Value:
        try:
            size = await self.work.size(value, span)
            found = await self.work.on(size + _work_of(wanted), span, partial(converted, value, kind, wanted))
        except Unfit as error:
            raise RunFailed(str(error), span) from None
        if found is not value:
            self.work.hold(size, span)
        return found

    async def _value(self, expr: s.Expr, scope: _Scope) -> Value:
        match expr:
            case s.Constant(constant):
                return constant
            case s.Variable(name):
                origin = self.checked.variables[expr]
                return scope.names[name] if origin is None else await self.declared(origin)
            case s.Interpolation():
                return await self._interpolated(expr, scope)
            case s.ListOf(items):
                found = await self.values(items, scope)
                return await self._made(found, found, expr.span)
            case s.RecordOf(fields):
                found = await self.values([each for _, each in fields], scope)
                return await self._made(dict(zip((name for name, _ in fields), found, strict=True)), found, expr.span)
            case s.Call():
                return await self._call(expr, scope)
            case s.Postfix(source, steps):
                value = await self.value(source, scope)
                for step in steps:
                    size = await self.work.size(value, expr.span) if is_list(value) else _shallow(value)
                    value = await self.work.on(size, step.span, partial(_taken, value, step))
                    self.work.hold(_shallow(value) if is_list(value) else 0, step.span)
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

    async def _made(self, value: Value, parts: list[Value], span: Span) -> Value:
        """A new list or record with these parts."""
        size = self.work.limit(await self.work.sizes(parts, span), span)
        self.work.hold(_shallow(value), span)
        return self.work.made(value, size)

    async def _interpolated(self, expr: s.Interpolation, scope: _Scope) -> str:
        values = await self.values(expr.values, scope)
        size = self.work.limit(await self.work.sizes(values, expr.span), expr.span)
        pieces = [*expr.texts[:1], *chain.from_iterable(zip(values, expr.texts[1:], strict=True))]
        text = await self.work.on(size, expr.span, lambda: "".join(map(text_of, pieces)))
        self.work.hold(self.work.limit(len(text), expr.span), expr.span)
        return text

    def _lambda(self, expr: s.Lambda, scope: _Scope) -> Lambda:
        names = [name.text for name, _ in expr.parameters]

        async def call(step: str, *arguments: Value) -> Value:
            return await self.value(expr.body, scope.within(dict(zip(names, arguments, strict=True)), step))

        return call

    async def _call(self, expr: s.Call, scope: _Scope) -> Value:
        arguments = await self.values(expr.arguments, scope)
        function, fallback = self.checked.function(expr), expr.options.fallback
        if expr in self.checked.whole:
            arguments = [arguments[0].get(name) for name, _ in function.parameters]
        arguments += [None] * (len(function.parameters) - len(arguments))
        compute = None
        if function.module in STANDARD:
            compute = partial(self._applied, expr, function, arguments, scope)
            if is_computed(expr, function):
                return await compute()
        instead = None if fallback is None else partial(self.value, fallback, scope)
        place = f"{self.checked.numbers[expr]}{scope.path}"
        value = await self.call(Calling(expr, function, arguments, place, compute, instead))
        return value if compute is not None else await self.work.got(value, expr.span)

    async def _applied(self, expr: s.Call, function: Function, arguments: list[Value], scope: _Scope) -> Value:
        """The result of a function of the standard library. A lambda is called for all items before."""
        if not isinstance(function.parameters[-1][1], t.Function):
            return await self._compute(expr, function, arguments)
        *values, call = arguments
        given = expr.arguments[-1]
        step = "." if isinstance(given, s.Lambda) else f"{scope.path}.{self.checked.numbers[expr]}."
        self.work.hold(_PART * len(values[0]), expr.span)
        results = await self._of_each(call, values[0], step, together=given in self.checked.waits)
        match self.checked.types[given], function.parameters[-1][1]:
            case t.Function(_, found), t.Function(_, wanted) if not isinstance(given, s.Lambda):
                results = await self._converted(results, t.ListOf(found), t.ListOf(wanted), given.span)
            case _:
                pass
        return await self._compute(expr, function, [*values, partial(_next, iter(results))])

    async def _of_each(self, call: Lambda, items: Sequence[Value], step: str, *, together: bool) -> list[Value]:
        """The results of a lambda for all items."""
        if not together:
            return [await call(f"{step}{index}", item) for index, item in enumerate(items)]
        results: list[Value] = [None] * len(items)
        left = iter(enumerate(items))

        async def work() -> None:
            for index, item in left:
                results[index] = await call(f"{step}{index}", item)

        async with _together() as tasks:
            for _ in range(min(len(items), _TOGETHER)):
                tasks.create_task(work())
        return results

    async def _compute(self, expr: s.Expr, function: Function, arguments: list[Value]) -> Value:
        if function.module not in STANDARD:
            raise RunFailed(f"{function.qualified} cannot be computed here", expr.span)
        compute = STANDARD[function.module].compute
        made = self.work.limit(size_made(function.module, arguments), expr.span)
        self.work.hold(made, expr.span)
        given = sum(_shallow(each) for each in arguments)
        try:
            return await self.work.on(made + given, expr.span, partial(compute, *arguments))
        except Failed as error:
            raise RunFailed(str(error), expr.span) from None

    async def _compared(self, expr: s.Comparison, operands: list[Value]) -> bool:
        function, *negation = self.checked.functions[expr]
        assert function is not None, "only merges have no function"
        result = await self._compute(expr, function, operands)
        return not result if negation else result

    async def _arithmetic(self, expr: s.Arithmetic, scope: _Scope) -> Value:
        left, *others = await self.values([expr.first, *(operand for _, operand in expr.rest)], scope)
        for (operator, _), right, function in zip(expr.rest, others, self.checked.functions[expr], strict=True):
            await self.work.charge(0, expr.span)
            if function is None:
                left = await self._merge(left, right, expr.span)
            elif isinstance(left, float) or isinstance(right, float):
                left = _floats(operator, left, right)
            else:
                left = await self._compute(expr, function, [left, right])
        return left

    async def _merge(self, left: Value, right: Value, span: Span) -> Value:
        """Two records as one, or the records of a list with another record, or those of two lists in pairs."""
        sizes = [await self.work.size(left, span), await self.work.size(right, span)]
        match is_list(left), is_list(right):
            case True, True if len(left) != len(right):
                raise RunFailed(f"lists of {len(left)} and {len(right)} records cannot be merged", span)
            case True, False:
                sizes[1] *= len(left)
            case False, True:
                sizes[0] *= len(right)
            case _:
                pass
        size = self.work.limit(sum(sizes), span)
        self.work.hold(size, span)
        return self.work.made(await self.work.on(size, span, partial(_merged, left, right)), size)

    async def _logic(self, expr: s.Logic, scope: _Scope) -> bool:
        decisive = expr.operator == "or"
        for operand in expr.operands:
            if (await self.value(operand, scope)) is decisive:
                return decisive
        return not decisive

    async def _coalesce(self, expr: s.Coalesce, scope: _Scope) -> Value:
        """The first value that is there. It stays an Optional if the whole expression is one."""
        *optionals, last = expr.operands
        whole = self.checked.types[expr]
        for operand in optionals:
            value = await self.value(operand, scope)
            if value is not None:
                return value if self.checked.types[operand] == whole else inside(value)
        return await self.value(last, scope)

    async def _match(self, expr: s.Match, scope: _Scope) -> Value:
        value = await self.value(expr.value, scope)
        for pattern, result in expr.cases:
            match pattern:
                case s.AnyPattern():
                    return await self.value(result, scope)
                case s.FieldsPattern(fields):
                    await self.work.charge(_PART * len(fields), pattern.span)
                    if is_object(value) and all(name in value for name in fields):
                        return await self.value(result, scope.within({name: value[name] for name in fields}))
                case s.TypePattern():
                    size = await self.work.size(value, pattern.span)
                    tested = self.checked.tested[pattern]
                    try:
                        fits = await self.work.on(size + _work_of(tested), pattern.span, partial(is_of, value, tested))
                    except Unfit as error:
                        raise RunFailed(str(error), pattern.span) from None
                    if fits:
                        return await self.value(result, scope)
        raise RunFailed("no pattern matches the value", expr.span)


def _work_of(kind: t.Type) -> int:
    """How much looking at a small value takes for its type, in bytes: a type may have many members to look for."""
    return 64 * kind.size if kind.size > _SMALL_TYPE else 0


def _shallow(value: Value) -> int:
    """The size of a value without its parts."""
    return _PART * len(value) if is_list(value) or is_object(value) else len(value) if isinstance(value, str) else 0


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


def _merged(left: Value, right: Value) -> Value:
    if is_list(left) and is_list(right):
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
