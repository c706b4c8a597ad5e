"""What an editor shows of a program: problems, completions, explanations. Places are offsets in the source."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from pallas_cst import syntax as s
from pallas_cst import types as t
from pallas_cst.check import check
from pallas_cst.faults import Code, Faulty, Span
from pallas_cst.functions import Function, Functions, Imports
from pallas_cst.parse import parse
from pallas_cst.stdlib import STANDARD, STANDARD_FUNCTIONS

_COMMENT = re.compile(r"#[^\n]*")
_USE = re.compile(r"\buse\s+([\w.-]+)(?:\s+as\s+([\w-]+))?")
_DECLARED = re.compile(r"\bin\s+([A-Za-z_][\w-]*)\s*:|(?<![\w.-])([A-Za-z_][\w-]*)\s*=(?![=>])")
_WORD = re.compile(r"[A-Za-z_][\w.-]*")
_BEGUN = re.compile(r"[A-Za-z_][\w.-]*$")
_AFTER_USE = re.compile(r"\buse\s+[\w.-]*$")
_AFTER_WITH = re.compile(r"\bwith\s[^()]*$")
_OPTIONS = tuple(s.Options.__dataclass_fields__)
_GENERICS = ("List", "Seq", "Map", "Optional")
_UNSEEN = (Code.UNDEFINED_FUNCTION, Code.UNDEFINED_NAMESPACE)
"""Faults that may only mean that the modules are not known."""

_MOST = 200


class Severity(Enum):
    """How bad a problem is."""

    ERROR = auto()
    WARNING = auto()
    UNSURE = auto()


class Kind(Enum):
    """What a completion is."""

    FUNCTION = auto()
    VARIABLE = auto()
    TYPE = auto()
    KEYWORD = auto()
    OPTION = auto()
    NAMESPACE = auto()


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault or a warning. Warnings have no code."""

    message: str
    span: Span
    severity: Severity
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A word that could stand here, in place of the one that was begun at `start`."""

    text: str
    kind: Kind
    start: int
    detail: str = ""
    about: str = ""


@dataclass(frozen=True)
class Known:
    """The functions there are; `live`: modules are among them. `about` has sentences on these by qualified name."""

    functions: Functions = field(default_factory=lambda: Functions(STANDARD_FUNCTIONS))
    about: Mapping[str, str] = field(default_factory=dict[str, str])
    live: bool = False

    def about_function(self, function: Function) -> str:
        """A sentence on a function, if there is one."""
        standard = STANDARD.get(function.module)
        return standard.about if standard else self.about.get(function.qualified, "")


def problems(source: str, known: Known) -> list[Problem]:
    """The faults of a program; if it has none, the warnings."""
    try:
        warnings = check(parse(source), known.functions).warnings
    except Faulty as error:
        return [_problem(fault.code, fault.message, fault.span, known) for fault in error.faults]
    return [Problem(each.message, each.span, Severity.WARNING) for each in warnings]


def _problem(code: Code, message: str, span: Span, known: Known) -> Problem:
    if code in _UNSEEN and not known.live:
        return Problem(f"{message} (the modules of the service are not known)", span, Severity.UNSURE, code)
    return Problem(message, span, Severity.ERROR, code)


def completions(source: str, at: int, known: Known) -> list[Completion]:
    """What could stand at a place."""
    before = source[:at]
    found = _BEGUN.search(before)
    begun, start = (found[0], found.start()) if found else ("", at)
    candidates = _namespaces(known, start) if _AFTER_USE.search(before) else _words(before, source, start, known)
    fitting = (
        each for each in candidates if begun.casefold() in f"{each.text} {each.detail.partition('(')[0]}".casefold()
    )
    unique = {each.text: each for each in fitting if each.text != begun}
    ordered = sorted(unique.values(), key=lambda each: (not each.text.startswith(begun), each.kind.value, each.text))
    return ordered[:_MOST]


def _namespaces(known: Known, start: int) -> Iterator[Completion]:
    for namespace in known.functions.namespaces:
        yield Completion(namespace, Kind.NAMESPACE, start)


def _words(before: str, source: str, start: int, known: Known) -> Iterator[Completion]:
    if _AFTER_WITH.search(before[-500:]):
        for option in _OPTIONS:
            yield Completion(option, Kind.OPTION, start)
    for declared in _DECLARED.finditer(_COMMENT.sub("", before)):
        yield Completion(declared[1] or declared[2], Kind.VARIABLE, start)
    imports = _imports(source)
    for function in known.functions.by_qualified.values():
        if function.name not in t.RESERVED:
            about = known.about_function(function)
            yield Completion(_written(function, imports, known), Kind.FUNCTION, start, str(function), about)
    for name in (*t.PRIMITIVES, *_GENERICS):
        yield Completion(name, Kind.TYPE, start)
    for word in t.RESERVED:
        yield Completion(word, Kind.KEYWORD, start)


def _imports(source: str) -> Imports:
    imports = Imports()
    for found in _USE.finditer(_COMMENT.sub("", source)):
        if found[2]:
            imports.aliases[found[2]] = found[1]
        else:
            imports.namespaces.append(found[1])
    return imports


def _written(function: Function, imports: Imports, known: Known) -> str:
    """How a program with these imports calls a function."""
    for alias, namespace in imports.aliases.items():
        if function.namespace == namespace:
            return f"{alias}.{function.name}"
    try:
        found = imports.resolve(known.functions, function.name, Span(0, 0))
    except Faulty:
        return function.qualified
    return function.name if found == function else function.qualified


def explained(source: str, at: int, known: Known) -> tuple[str, Span] | None:
    """What is known of the name at a place, as Markdown, and where the name is."""
    found = next((each for each in _WORD.finditer(source) if each.start() <= at <= each.end()), None)
    if found is None:
        return None
    span, name = Span(*found.span()), found[0]
    if (kind := _type_of(source, name.partition(".")[0], at, known)) is not None:
        return f"```cst\n{name.partition('.')[0]}: {kind}\n```", span
    try:
        function = _imports(source).resolve(known.functions, name, span)
    except Faulty:
        return None
    about = known.about_function(function)
    return f"```cst\n{function}\n```" + (f"\n\n{about}" if about else ""), span


def _type_of(source: str, name: str, at: int, known: Known) -> t.Type | None:
    """The type of a variable as it was last declared before a place; None in a program with faults."""
    try:
        checked = check(parse(source), known.functions)
    except Faulty:
        return None
    kind = None
    for each in checked.program.declarations:
        if (
            isinstance(each, s.Input | s.Assignment)
            and each.name.text == name
            and (kind is None or each.name.span.start <= at)
        ):
            kind = checked.inputs[name] if isinstance(each, s.Input) else checked.types[each.value]
    return kind
