"""Parse a program: recursive descent, operators by precedence.

The grammar is that of the Constellation engine. Declarations have no separators, line breaks mean nothing, and names
may have hyphens, so `a-b` is one name and `a - b` a difference. The tree is at most `MOST_DEPTH` deep.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, Never

from pallas_cst import syntax as s
from pallas_cst.faults import Code, Fault, Faulty, Span
from pallas_cst.types import NAME, RESERVED

MOST_DEPTH = 100
"""Brackets and branches inside each other."""

LONGS = range(-(2**63), 2**63)
"""The integers of the language."""

_COUNTS = range(2**31)
"""The integers of options."""

_HALF = re.compile(r"[\ud800-\udfff]")
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*+")
_QUALIFIED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*+(?:\.[A-Za-z_][A-Za-z0-9_-]*+)*+")
_OPERATOR = re.compile(r"\?\?|[=!<>]=|[<>+*/]|-(?!>)|(?:when|or|and)(?![A-Za-z0-9_-])")
_FLOAT = re.compile(r"[0-9]++\.[0-9]++")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*+)")
_NATURAL = re.compile(r"0|[1-9][0-9]*+")
_DURATION = re.compile(r"(0|[1-9][0-9]*+)(ms|min|s|h|d)")
_TEXT = re.compile(r'(?:[^"\\$]|\$(?!\{)|\\[ntr\\"$])*+')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_QUOTED = re.compile(r'"([^"]*+)"')
_FIELD = re.compile(r'"(?:[^"\\\n]|\\.)*+"')
_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*+|[0-9]++|\?\?|[=!<>-][=>]|.", re.DOTALL)
_HINTS = {"%": "the remainder is modulo(a, b)", "'": 'texts are written as "text"', "!": "the opposite is not a"}
_LONGEST_TOKEN = 40
_LAMBDA = re.compile(r"\([ \t\r\n]*+(?:\)|[A-Za-z_][A-Za-z0-9_-]*+[ \t\r\n]*+[,:)]|#)")
_OPTION = re.compile(
    r"(retry|timeout|delay|backoff|fallback|cache_backend|cache|throttle|concurrency|on_error|priority"
    r"|batch_timeout|batch|window|checkpoint|join)(?=[ \t\r\n:#])"
)
_STREAMING = re.compile(r"tumbling|sliding|count|combine_latest|buffer|zip")
_WORDS = {
    "backoff": re.compile(r"exponential|linear|fixed"),
    "on_error": re.compile(r"propagate|skip|log|wrap"),
    "priority": re.compile(r"critical|high|normal|low|background"),
}

_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_LEVELS = {
    "??": 1,
    "when": 2,
    "or": 3,
    "and": 4,
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), 6),
    **dict.fromkeys("+-", 7),
    **dict.fromkeys("*/", 8),
}
_NOT_LEVEL = 5


_A_FIELD = "the name of a field"


class _Failed(Exception):
    """The source does not go on as the grammar demands. The parser may try something else."""


def parse(source: str) -> s.Program:
    """The program in a source.

    Raises:
        Faulty: it is none (one fault, E020).
    """
    parser = _Parser(source)
    if (half := _HALF.search(source)) is not None:
        parser.refuse("half a character (a lone surrogate)", half.start())
    try:
        return parser.program()
    except _Failed:
        raise parser.fault() from None
    except RecursionError:  # the caller is deep itself; what comes after the parser takes less of the stack
        parser.refuse("nested too deeply", parser.at)


@dataclass
class _Parser:
    text: str
    at: int = 0
    end: int = 0  # behind the last token, without the space after it
    depth: int = 0
    furthest: int = 0
    expected: set[str] = field(default_factory=set[str])

    # Tokens

    def fault(self) -> Faulty:
        """The fault at the furthest position that was reached."""
        at = self.furthest
        token = _TOKEN.match(self.text, at)
        found = "the end" if token is None else repr(token[0][:_LONGEST_TOKEN])
        if token is not None and token[0] in RESERVED:
            found += ", which is a reserved word"
            if _A_FIELD in self.expected:
                found += f' (a field of this name is written "{token[0]}")'
        elif token is not None and token[0] in _HINTS:
            found += f" ({_HINTS[token[0]]})"
        wanted = " or ".join(sorted(self.expected)) or "something else"
        end = at + 1 if token is None else token.end()
        return Faulty(Fault(Code.SYNTAX, f"Syntax error: expected {wanted}, found {found}", Span(at, end)))

    def fail(self, expected: str) -> Never:
        if self.at > self.furthest:
            self.furthest, self.expected = self.at, set()
        if self.at == self.furthest:
            self.expected.add(expected)
        raise _Failed

    def refuse(self, message: str, at: int) -> Never:
        """Stop parsing for good."""
        raise Faulty(Fault(Code.SYNTAX, f"Syntax error: {message}", Span(at, at + 1)))

    def skip(self, to: int) -> None:
        """Go behind a token and the space after it."""
        self.end = to
        found = _SPACE.match(self.text, to)
        self.at = found.end() if found else to

    def has(self, symbol: str) -> bool:
        """Take a symbol if it is here."""
        if not self.text.startswith(symbol, self.at):
            return False
        self.skip(self.at + len(symbol))
        return True

    def need(self, symbol: str) -> None:
        if not self.has(symbol):
            self.fail(repr(symbol))

    def has_word(self, word: str) -> bool:
        """Take a keyword if it is here."""
        found = NAME.match(self.text, self.at)
        if found is None or found[0] != word:
            return False
        self.skip(found.end())
        return True

    def need_word(self, word: str) -> None:
        if not self.has_word(word):
            self.fail(repr(word))

    def take(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        """Take what matches, and the space after it."""
        found = pattern.match(self.text, self.at)
        if found is None:
            self.fail(expected)
        self.skip(found.end())
        return found

    def name(self, expected: str = "a name") -> s.Name:
        start = self.at
        found = NAME.match(self.text, start)
        if found is None or found[0] in RESERVED:
            self.fail(expected)
        self.skip(found.end())
        return s.Name(found[0], Span(start, self.end))

    def field(self) -> s.Name:
        """The name of a field. One that is no name of the language is written as a JSON string."""
        start = self.at
        if not self.text.startswith('"', start):
            return self.name(_A_FIELD)
        try:
            name: str = json.loads(self.take(_FIELD, _A_FIELD)[0], strict=False)
        except ValueError:
            self.refuse("the name of the field is no JSON string", start)
        if _HALF.search(name):
            self.refuse("half a character (a lone surrogate)", start)
        return s.Name(name, self.span(start))

    def natural(self, most: range = _COUNTS) -> int:
        start = self.at
        value = _integer(self.take(_NATURAL, "a number")[0])
        if value not in most:
            self.refuse("the number is too large", start)
        return value

    def duration(self) -> s.Duration:
        start = self.at
        found = self.take(_DURATION, "a duration such as 30s (ms, s, min, h, d)")
        value = _integer(found[1])
        if value not in LONGS:
            self.refuse("the number is too large", start)
        return s.Duration(value, s.UNITS[found[2]])

    def span(self, start: int) -> Span:
        return Span(start, self.end)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            self.refuse("nested too deeply", self.at)

    def separated[T](self, item: Callable[[], T], close: str, *, may_be_empty: bool = True) -> list[T]:
        """Items with commas between them, up to the closing symbol."""
        items: list[T] = []
        if may_be_empty and self.has(close):
            return items
        items.append(item())
        while self.has(","):
            items.append(item())
        self.need(close)
        return items

    # Declarations

    def program(self) -> s.Program:
        self.skip(0)
        declarations: list[s.Declaration] = []
        while self.at < len(self.text):
            declarations.append(self.declaration())
        if not any(isinstance(each, s.Output) for each in declarations):
            self.fail("an output ('out')")
        return s.Program(declarations)

    def declaration(self) -> s.Declaration:
        if self.has_word("type"):
            name = self.name()
            self.need("=")
            return s.TypeDeclaration(name, self.type())
        if self.has_word("in"):
            return self.input(())
        if self.has_word("out"):
            return s.Output(self.name())
        if self.has_word("use"):
            return self.use()
        if self.text.startswith("@", self.at):
            return self.annotated()
        if NAME.match(self.text, self.at) is None:
            self.fail("a declaration")
        name = self.name()
        if self.text.startswith("==", self.at):
            self.fail("'='")
        self.need("=")
        return s.Assignment(name, self.expression())

    def input(self, annotations: tuple[s.Annotation, ...]) -> s.Input:
        name = self.name()
        self.need(":")
        return s.Input(name, self.type(), annotations)

    def use(self) -> s.Use:
        start = self.at
        namespace = s.Name(self.qualified(), self.span(start))
        return s.Use(namespace, self.name() if self.has_word("as") else None)

    def qualified(self) -> str:
        found = _QUALIFIED.match(self.text, self.at)
        if found is None or not RESERVED.isdisjoint(found[0].split(".")):
            self.fail("a name")
        self.skip(found.end())
        return found[0]

    def annotated(self) -> s.Input | s.Output:
        annotations: list[s.Annotation] = []
        while self.has("@"):
            annotations.append(self.annotation())
        kinds = {annotation.kind for annotation in annotations}
        if kinds == {"sink"}:
            self.need_word("out")
            return s.Output(self.name(), annotations)
        if "sink" in kinds:
            self.fail("annotations of an input or of an output, not of both")
        self.need_word("in")
        return self.input(tuple(annotations))

    def annotation(self) -> s.Annotation:
        if self.has("example("):
            value = self.expression()
            self.need(")")
            return s.Annotation("example", value)
        kind: Literal["source", "sink"] = "source"
        if not self.has("source("):
            kind = "sink"
            self.need("sink(")
        connector = self.take(_QUOTED, "a text")[1]
        properties: list[tuple[str, s.Expr]] = []
        while self.has(","):
            key = self.take(NAME, "a name")[0]
            self.need(":")
            properties.append((key, self.expression()))
        self.need(")")
        return s.Annotation(kind, None, connector, properties)

    # Types

    def type(self) -> s.TypeExpr:
        self.deeper()
        start = self.at
        members = [self.merged_type()]
        while self.has("|"):
            members.append(self.merged_type())
        self.depth -= 1
        return members[0] if len(members) == 1 else s.UnionType(members, self.span(start))

    def merged_type(self) -> s.TypeExpr:
        start = self.at
        parts = [self.single_type()]
        while self.has("+"):
            parts.append(self.single_type())
        return parts[0] if len(parts) == 1 else s.MergedType(parts, self.span(start))

    def single_type(self) -> s.TypeExpr:
        start = self.at
        if self.has("{"):
            return s.RecordType(self.separated(self.field_type, "}"), self.span(start))
        name = self.name()
        if not self.has("<"):
            return s.NamedType(name.text, None, name.span)
        return s.NamedType(name.text, self.separated(self.type, ">", may_be_empty=False), self.span(start))

    def field_type(self) -> tuple[str, s.TypeExpr]:
        name = self.field()
        self.need(":")
        return name.text, self.type()

    # Expressions

    def expression(self) -> s.Expr:
        self.deeper()
        found = self.lambda_() or self.operators()
        self.depth -= 1
        return found

    def lambda_(self) -> s.Lambda | None:
        """A lambda if there is one here. `(x)` alone is a value in brackets."""
        if _LAMBDA.match(self.text, self.at) is None:
            return None
        start, end, depth = self.at, self.end, self.depth
        try:
            self.need("(")
            parameters = self.separated(self.parameter, ")")
            self.need("=>")
        except _Failed:
            self.at, self.end, self.depth = start, end, depth
            return None
        body = self.expression()
        return s.Lambda(parameters, body, self.span(start))

    def parameter(self) -> tuple[s.Name, s.TypeExpr | None]:
        return self.name(), self.type() if self.has(":") else None

    def operators(self) -> s.Expr:
        """Operands with operators between them."""
        chain = _Operators()
        while True:
            start, negations = self.at, 0
            while chain.level < _NOT_LEVEL and self.has_word("not"):
                negations += 1
            if negations:
                chain.negate(negations, start)
            chain.push(self.operand())
            found = _OPERATOR.match(self.text, self.at)
            if found is None or not chain.takes(found[0]):
                return chain.result()
            self.skip(found.end())

    def operand(self) -> s.Expr:
        """A value, and what is taken from it."""
        start = self.at
        source = self.primary()
        steps: list[s.FieldAccess | s.Projection] = []
        while True:
            begin = self.at
            if self.has("."):
                name = self.field()
                steps.append(s.FieldAccess(name.text, name.span))
            elif self.has("["):
                steps.append(s.Projection(self.fields("]"), self.span(begin)))
            elif self.has("{"):
                steps.append(s.Projection(self.fields("}"), self.span(begin)))
            else:
                return s.Postfix(source, steps, self.span(start)) if steps else source

    def fields(self, close: str) -> list[str]:
        return [name.text for name in self.separated(self.field, close, may_be_empty=False)]

    def primary(self) -> s.Expr:
        start, char = self.at, self.text[self.at : self.at + 1]
        if char == "(":
            self.need("(")
            inner = self.expression()
            self.need(")")
            return inner
        if char == '"':
            return self.string()
        if char == "[":
            self.need("[")
            return s.ListOf(self.separated(self.expression, "]"), self.span(start))
        if char == "{":
            self.need("{")
            return s.RecordOf(self.separated(self.field_value, "}"), self.span(start))
        if char.isdigit() or char == "-":
            return self.number()
        found = NAME.match(self.text, start)
        if found is None:
            self.fail("a value")
        if found[0] in RESERVED:
            return self.keyword(found[0])
        return self.call_or_variable()

    def keyword(self, word: str) -> s.Expr:
        start = self.at
        if word in ("true", "false"):
            self.skip(start + len(word))
            return s.Constant(word == "true", self.span(start))
        if word == "if":
            return self.if_()
        if word == "branch":
            return self.branch()
        if word != "match":
            self.fail("a value")
        return self.match()

    def call_or_variable(self) -> s.Expr:
        start, end = self.at, self.end
        found = _QUALIFIED.match(self.text, start)
        assert found is not None, "a name is here"
        self.skip(found.end())
        if RESERVED.isdisjoint(found[0].split(".")) and self.has("("):
            arguments = self.separated(self.expression, ")")
            options = self.options() if self.has_word("with") else s.NO_OPTIONS
            return s.Call(found[0], arguments, options, self.span(start))
        self.at, self.end = start, end
        name = self.name()
        return s.Variable(name.text, name.span)

    def field_value(self) -> tuple[str, s.Expr]:
        name = self.field()
        self.need(":")
        return name.text, self.expression()

    def number(self) -> s.Constant:
        start = self.at
        if (found := _FLOAT.match(self.text, start)) is not None:
            self.skip(found.end())
            return s.Constant(float(found[0]), self.span(start))
        if self.text.startswith("-", start) and (found := _FLOAT.match(self.text, start + 1)) is not None:
            self.refuse(f"a Float is written without a sign: 0.0 - {found[0][:_LONGEST_TOKEN]}", start)
        value = _integer(self.take(_INTEGER, "a value")[0])
        if value not in LONGS:
            self.refuse("the integer does not fit into 64 bits", start)
        return s.Constant(value, self.span(start))

    def string(self) -> s.Expr:
        start = self.at
        self.at += 1
        texts, values = [self.string_part()], list[s.Expr]()
        while self.text.startswith("${", self.at):
            self.at += 2
            values.append(self.expression())
            if not self.text.startswith("}", self.at):
                self.fail("'}'")
            self.at += 1
            texts.append(self.string_part())
        if not self.text.startswith('"', self.at):
            self.fail("the end of the text ('\"')")
        self.skip(self.at + 1)
        if values:
            return s.Interpolation(texts, values, self.span(start))
        return s.Constant(texts[0], self.span(start))

    def string_part(self) -> str:
        found = _TEXT.match(self.text, self.at)
        assert found is not None, "it matches the empty text, too"
        self.at = found.end()
        return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), found[0])

    def if_(self) -> s.If:
        start = self.at
        self.need_word("if")
        self.need("(")
        condition = self.expression()
        self.need(")")
        then = self.expression()
        self.need_word("else")
        return s.If(condition, then, self.expression(), self.span(start))

    def branch(self) -> s.Branch:
        start = self.at
        self.need_word("branch")
        self.need("{")
        cases: list[tuple[s.Expr, s.Expr]] = []
        while not self.has_word("otherwise"):
            condition = self.expression()
            self.need("->")
            cases.append((condition, self.expression()))
            self.need(",")
        self.need("->")
        otherwise = self.expression()
        self.need("}")
        return s.Branch(cases, otherwise, self.span(start))

    def match(self) -> s.Match:
        start = self.at
        self.need_word("match")
        self.deeper()
        value = self.primary()
        self.depth -= 1
        self.need("{")
        return s.Match(value, self.separated(self.match_case, "}", may_be_empty=False), self.span(start))

    def match_case(self) -> tuple[s.Pattern, s.Expr]:
        pattern = self.pattern()
        self.need("->")
        return pattern, self.expression()

    def pattern(self) -> s.Pattern:
        start = self.at
        if self.has("{"):
            names = self.separated(self.name, "}", may_be_empty=False)
            return s.FieldsPattern([name.text for name in names], self.span(start))
        if self.has_word("_"):
            return s.AnyPattern(self.span(start))
        self.need_word("is")
        return s.TypePattern(self.name().text, self.span(start))

    # Options

    def options(self) -> s.Options:
        """The options of a call. A comma without an option behind it belongs to what is around the call."""
        options = self.option(s.NO_OPTIONS)
        while True:
            start, end = self.at, self.end
            try:
                self.need(",")
                options = self.option(options)
            except _Failed:
                self.at, self.end = start, end
                return options

    def option(self, before: s.Options) -> s.Options:
        if self.has_word("lazy"):
            return replace(before, lazy=self.boolean() if self.has(":") else True)
        name = self.take(_OPTION, "an option")[1]
        self.need(":")
        return replace(before, **{name: self.option_value(name)})

    def boolean(self) -> bool:
        if self.has_word("true"):
            return True
        self.need_word("false")
        return False

    def option_value(self, name: str) -> object:
        match name:
            case "retry" | "concurrency" | "batch":
                return self.natural()
            case "timeout" | "delay" | "cache" | "batch_timeout" | "checkpoint":
                return self.duration()
            case "fallback":
                return self.fallback()
            case "cache_backend":
                return self.take(_QUOTED, "a text")[1]
            case "throttle":
                return self.rate()
            case "priority" if _WORDS[name].match(self.text, self.at) is None:
                return _integer(self.take(_INTEGER, "a priority")[0])
            case "window" | "join":
                return self.streaming(name)
            case _:
                return self.take(_WORDS[name], f"a value of {name}")[0]

    def fallback(self) -> s.Expr:
        """The value is parsed once: what is no expression here is none anywhere else."""
        try:
            return self.expression()
        except _Failed:
            raise self.fault() from None

    def rate(self) -> s.Rate:
        start = self.at
        count = _integer(self.take(_NATURAL, "a rate such as 10/1s")[0])
        if count not in _COUNTS:
            self.refuse("the number is too large", start)
        self.need("/")
        return s.Rate(count, self.duration())

    def streaming(self, option: str) -> s.Named:
        start = self.at
        name = self.take(_STREAMING, f"a value of {option}")[0]
        if (name in ("combine_latest", "buffer", "zip")) != (option == "join"):
            self.at = start
            self.fail(f"a value of {option}")
        if name in ("combine_latest", "zip"):
            return s.Named(name)
        self.need("(")
        arguments: list[s.Duration | int] = [self.natural() if name == "count" else self.duration()]
        if name == "sliding":
            self.need(",")
            arguments.append(self.duration())
        self.need(")")
        return s.Named(name, arguments)


def _integer(digits: str) -> int:
    """The integer; one with more than 20 digits is too large for the language, and as good as any other."""
    return int(digits) if len(digits) <= 20 else 10**20


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An operator whose right side is not complete yet. `times` is how often `not` is repeated."""

    level: int
    operator: str
    start: int = 0
    times: int = 1


@dataclass
class _Operators:
    """Operands and operators that wait for what follows, innermost last.

    `_own` says of each operand whether it was made here; what was in brackets was not, and is no part of a chain.
    """

    _operands: list[s.Expr] = field(default_factory=list[s.Expr])
    _own: list[bool] = field(default_factory=list[bool])
    _waiting: list[_Waiting] = field(default_factory=list[_Waiting])

    @property
    def level(self) -> int:
        """The level of the operator in front of the next operand."""
        return self._waiting[-1].level if self._waiting else 0

    def negate(self, times: int, start: int) -> None:
        """The next operand is behind that many `not`."""
        self._waiting.append(_Waiting(_NOT_LEVEL, "not", start, times))

    def push(self, operand: s.Expr, *, own: bool = False) -> None:
        """The next operand."""
        self._operands.append(operand)
        self._own.append(own)

    def takes(self, operator: str) -> bool:
        """Take the operator; False if it cannot follow here, because it does not chain."""
        level = _LEVELS[operator]
        self._reduce(level)
        if self._own[-1] and isinstance(self._operands[-1], _NOT_CHAINED.get(level, ())):
            return False
        self._waiting.append(_Waiting(level, operator))
        return True

    def result(self) -> s.Expr:
        """The whole expression."""
        self._reduce(0)
        return self._operands[0]

    def _reduce(self, level: int) -> None:
        """Apply the waiting operators that bind at least as strongly as `level`."""
        while self._waiting and self._waiting[-1].level >= level:
            waiting = self._waiting.pop()
            right, _ = self._operands.pop(), self._own.pop()
            if waiting.operator == "not":
                self.push(s.Not(right, waiting.times, Span(waiting.start, right.span.end)), own=True)
            else:
                left, own = self._operands.pop(), self._own.pop()
                self.push(_joined(left, waiting, right, own=own), own=True)


_NOT_CHAINED: dict[int, type[s.Expr]] = {_LEVELS["when"]: s.Guard, _LEVELS["<"]: s.Comparison}


def _joined(left: s.Expr, waiting: _Waiting, right: s.Expr, *, own: bool) -> s.Expr:
    """Both sides as one node. A chain that was made here (`own`) gets one more link."""
    operator, span = waiting.operator, Span(left.span.start, right.span.end)
    match operator:
        case "??":
            if own and isinstance(left, s.Coalesce):
                left.operands.append(right)
                return s.Coalesce(left.operands, span)
            return s.Coalesce([left, right], span)
        case "when":
            return s.Guard(left, right, span)
        case "and" | "or":
            if own and isinstance(left, s.Logic) and left.operator == operator:
                left.operands.append(right)
                return s.Logic(operator, left.operands, span)
            return s.Logic(operator, [left, right], span)
        case "+" | "-" | "*" | "/":
            if own and isinstance(left, s.Arithmetic) and _LEVELS[left.rest[0][0]] == waiting.level:
                left.rest.append((operator, right))
                return s.Arithmetic(left.first, left.rest, span)
            return s.Arithmetic(left, [(operator, right)], span)
        case "==" | "!=" | "<" | ">" | "<=" | ">=":
            return s.Comparison(left, operator, right, span)
        case _:
            raise AssertionError(f"{operator} is no operator")
