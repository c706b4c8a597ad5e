"""Write a program as text: one declaration a line, no more brackets than needed."""

import re
from collections.abc import Iterable
from dataclasses import fields
from decimal import Decimal

from pallas_cst import syntax as s
from pallas_cst.types import written_field

_WIDE = 100
_NEVER = -1
"""The level of what needs brackets everywhere."""
_ANY, _COALESCE, _GUARD, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _OPERAND, _PRIMARY = range(11)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "${": "\\${"}
_TO_ESCAPE = re.compile(r'[\\"\n\t\r]|\$\{')


def pretty(program: s.Program) -> str:
    """The program as text that is parsed to the same program. Comments are lost."""
    return "".join(f"{line}\n" for line in map(_declaration, program.declarations))


def _declaration(declaration: s.Declaration) -> str:
    match declaration:
        case s.TypeDeclaration(name, definition):
            return f"type {name.text} = {type_text(definition)}"
        case s.Input(name, kind, annotations):
            return f"{_annotations(annotations)}in {name.text}: {type_text(kind)}"
        case s.Output(name, annotations):
            return f"{_annotations(annotations)}out {name.text}"
        case s.Use(namespace, alias):
            return f"use {namespace.text}{f' as {alias.text}' if alias else ''}"
        case s.Assignment(name, value):
            return f"{name.text} = {_text(value, _ANY, ends=True)}"


def _annotations(annotations: Iterable[s.Annotation]) -> str:
    return "".join(f"@{each.kind}({_annotated(each)})\n" for each in annotations)


def _annotated(annotation: s.Annotation) -> str:
    if annotation.value is not None:
        return _text(annotation.value)
    properties = (f"{key}: {_text(value)}" for key, value in annotation.properties)
    return ", ".join((f'"{annotation.connector}"', *properties))


def type_text(kind: s.TypeExpr) -> str:
    """A type as text."""
    match kind:
        case s.NamedType(name, None):
            return name
        case s.NamedType(name, parameters):
            return f"{name}<{', '.join(map(type_text, parameters or ()))}>"
        case s.RecordType(entries):
            return f"{{ {', '.join(f'{written_field(name)}: {type_text(field)}' for name, field in entries)} }}"
        case s.MergedType(parts):
            return " + ".join(map(type_text, parts))
        case s.UnionType(members):
            return " | ".join(map(type_text, members))


def expr_text(expr: s.Expr) -> str:
    """An expression as text."""
    return _text(expr)


def _text(expr: s.Expr, level: int = _ANY, *, ends: bool = False) -> str:
    """An expression where at least `level` is needed. `ends`: nothing follows that it could take for its own."""
    own, text = _leveled(expr, ends=ends)
    return text if own >= level else f"({text})"


def _texts(values: Iterable[s.Expr]) -> str:
    return ", ".join(map(_text, values))


def _leveled(expr: s.Expr, *, ends: bool) -> tuple[int, str]:
    match expr:
        case s.Variable(name):
            return _PRIMARY, name
        case s.Constant(value):
            return _PRIMARY, _constant(value)
        case s.Interpolation(texts, values):
            parts = [_escaped(texts[0])]
            for value, text in zip(values, texts[1:], strict=True):
                parts += [f"${{{_text(value)}}}", _escaped(text)]
            return _PRIMARY, f'"{"".join(parts)}"'
        case s.ListOf(items):
            return _PRIMARY, f"[{_texts(items)}]"
        case s.RecordOf(entries):
            return _PRIMARY, f"{{ {', '.join(f'{written_field(name)}: {_text(value)}' for name, value in entries)} }}"
        case s.Call(name, arguments, options):
            call = f"{name}({_texts(arguments)})"
            return (_PRIMARY, call) if options is s.NO_OPTIONS else _with_options(call, options, ends=ends)
        case s.Postfix(source, steps):
            return _OPERAND, _text(source, _PRIMARY) + "".join(map(_step, steps))
        case s.Arithmetic(first, rest):
            own = _SUM if rest[0][0] in "+-" else _PRODUCT
            return own, _text(first, own + 1) + "".join(f" {sign} {_text(each, own + 1)}" for sign, each in rest)
        case s.Comparison(left, operator, right):
            return _COMPARISON, f"{_text(left, _SUM)} {operator} {_text(right, _SUM)}"
        case s.Logic(operator, operands):
            own = _AND if operator == "and" else _OR
            return own, f" {operator} ".join(_text(each, own + 1) for each in operands)
        case s.Not(operand, times):
            return _NOT, "not " * times + _text(operand, _COMPARISON)
        case s.Guard(value, condition):
            return _GUARD, f"{_text(value, _OR)} when {_text(condition, _OR)}"
        case s.Coalesce(operands):
            return _COALESCE, " ?? ".join(_text(each, _GUARD) for each in operands)
        case s.If(condition, then, otherwise):
            return _ANY, f"if ({_text(condition)}) {_text(then, _COALESCE)} else {_text(otherwise, ends=ends)}"
        case s.Branch(cases, otherwise):
            lines = [*((_text(condition), _text(value)) for condition, value in cases), ("otherwise", _text(otherwise))]
            return _PRIMARY, f"branch {_block(lines)}"
        case s.Match(value, matched):
            lines = [(_pattern(pattern), _text(result)) for pattern, result in matched]
            return _PRIMARY, f"match {_text(value, _PRIMARY)} {_block(lines)}"
        case s.Lambda(parameters, body):
            given = (f"{name.text}{f': {type_text(kind)}' if kind else ''}" for name, kind in parameters)
            return _ANY, f"({', '.join(given)}) => {_text(body, ends=ends)}"


def _block(lines: list[tuple[str, str]]) -> str:
    """Cases in one line if there is room, else a line each."""
    cases = [f"{left} -> {right}" for left, right in lines]
    short = f"{{ {', '.join(cases)} }}"
    if len(short) <= _WIDE and "\n" not in short:
        return short
    inner = ",\n".join(cases).replace("\n", "\n  ")
    return f"{{\n  {inner}\n}}"


def _step(step: s.FieldAccess | s.Projection) -> str:
    if isinstance(step, s.FieldAccess):
        return f".{written_field(step.field)}"
    return f"[{', '.join(map(written_field, step.fields))}]"


def _pattern(pattern: s.Pattern) -> str:
    match pattern:
        case s.FieldsPattern(names):
            return f"{{ {', '.join(names)} }}"
        case s.TypePattern(name):
            return f"is {name}"
        case s.AnyPattern():
            return "_"


def _constant(value: float | str | bool) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            digits = format(Decimal(repr(value)), "f")
            return digits if "." in digits else f"{digits}.0"
        case str():
            return f'"{_escaped(value)}"'


def _escaped(text: str) -> str:
    return _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], text)


def _with_options(call: str, options: s.Options, *, ends: bool) -> tuple[int, str]:
    """A call with options. They end where a comma begins something else, so it needs brackets unless it `ends`."""
    given = ", ".join(f"{name}: {text}" for name, text in option_texts(options).items())
    return (_ANY if ends else _NEVER), f"{call} with {given}"


def option_texts(options: s.Options) -> dict[str, str]:
    """The options that are given, and their values as text."""
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    special = {
        "fallback": options.fallback and _text(options.fallback, _COALESCE),
        "cache_backend": options.cache_backend and f'"{options.cache_backend}"',
    }
    return {name: special.get(name) or option_text(value) for name, value in given.items() if value is not None}


def option_text(value: object) -> str:
    """The value of an option as text, if it is neither a quoted text nor an expression."""
    return str(value).lower() if isinstance(value, bool) else str(value)
