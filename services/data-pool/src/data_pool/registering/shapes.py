"""Types as data agents write them (`list[list[float]]`), and what they are in JSON Schema.

    type  = one { "|" one }
    one   = ( word [ "[" type { "," type } "]" ] | "{" [ name ":" type { "," name ":" type } ] "}" ) { "?" }

Words are case-insensitive. An object of the registration whose values are types is a type, too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pallas_contracts.bounds import Json, JsonObject

MOST_LEVELS = 32
LONGEST = 2000

_SIMPLE: Mapping[str, JsonObject] = {
    "any": {},
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "object": {"type": "object"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
}
_SPELLINGS = {word: word for word in (*_SIMPLE, "list", "map", "tuple", "optional")} | {
    "json": "any",
    "str": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "none": "null",
    "dict": "object",
    "array": "list",
}
_COUNTS = {"list": range(1, 2), "map": range(2, 3), "optional": range(1, 2), "tuple": range(1, 101)}
"""How many types the brackets behind a word may have."""

_SIGN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_-]*|[\[\]{},:|?]|$)")


@dataclass(frozen=True, slots=True)
class Shape:
    """A type: `word` in its first spelling, `or`, or `fields`. `of` are the types inside, `names` those of fields."""

    word: str
    of: tuple["Shape", ...] = ()
    names: tuple[str, ...] = ()


class ShapeFault(Exception):
    """A type that cannot be read. `faults` are reasons by the path inside a type that is an object."""

    def __init__(self, reason: str, *, inside: Mapping[tuple[str, ...], str] | None = None) -> None:
        super().__init__(reason)
        self.faults = {(): reason} if inside is None else inside


def shape_of(value: Json, level: int = 0) -> Shape:
    """The type that a registration gives as a text, or as an object of types.

    Raises:
        ShapeFault: it is neither, or a text that is no type; the reason names the column, from 1.
    """
    if isinstance(value, str):
        return _Reader(value).read()
    if not isinstance(value, dict):
        raise ShapeFault("must be a type, such as string or list[float]")
    if level == MOST_LEVELS:
        raise ShapeFault(f"has more than {MOST_LEVELS} levels")
    inner, faults = list[Shape](), dict[tuple[str, ...], str]()
    for name, each in value.items():
        try:
            inner.append(shape_of(each, level + 1))
        except ShapeFault as fault:
            faults |= {(name, *where): reason for where, reason in fault.faults.items()}
    if faults:
        raise ShapeFault("has faults", inside=faults)
    return Shape("fields", tuple(inner), tuple(value))


def schema_of(shape: Shape) -> JsonObject:
    """The type in JSON Schema. Fields are required unless they are `optional`; others are allowed."""
    inner = [schema_of(each) for each in shape.of]
    match shape.word:
        case "fields":
            required = [name for name, each in zip(shape.names, shape.of, strict=True) if each.word != "optional"]
            return {"type": "object", "properties": dict(zip(shape.names, inner, strict=True)), "required": required}
        case "list":
            return {"type": "array", **({"items": inner[0]} if inner else {})}
        case "tuple":
            return {
                "type": "array",
                **({"prefixItems": inner, "minItems": len(inner), "items": False} if inner else {}),
            }
        case "map":
            return {"type": "object", **({"additionalProperties": inner[1]} if inner else {})}
        case "optional":
            return {"anyOf": [*inner, {"type": "null"}]}
        case "or":
            return {"anyOf": inner}
        case word:
            return dict(_SIMPLE[word])


class _Reader:
    """Reads one text from left to right. `sign` is the next word or mark, empty at the end, and `column` its place."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise ShapeFault(f"has more than {LONGEST} characters")
        self._text, self._end = text, 0
        self.sign, self.column = "", 1
        self._next()

    def read(self) -> Shape:
        shape = self._type(0)
        if self.sign:
            raise self._fault(f"{self.sign!r} is not expected")
        return shape

    def _next(self) -> str:
        """Go on to the next one; returns the last one."""
        last, found = self.sign, _SIGN.match(self._text, self._end)
        if found is None:
            rest = self._text[self._end :].lstrip()
            raise self._fault(f"{rest[0]!r} is not expected", len(self._text) - len(rest) + 1)
        self.sign, self.column, self._end = found[1], found.start(1) + 1, found.end()
        return last

    def _fault(self, reason: str, column: int | None = None) -> ShapeFault:
        return ShapeFault(f"column {column or self.column}: {reason}")

    def _expect(self, sign: str) -> None:
        if self.sign != sign:
            raise self._fault(f"{sign!r} is expected, not {self.sign or 'the end'!r}")
        self._next()

    def _type(self, level: int) -> Shape:
        if level > MOST_LEVELS:
            raise self._fault(f"has more than {MOST_LEVELS} levels")
        found = [self._one(level)]
        while self.sign == "|":
            self._next()
            found.append(self._one(level))
        return found[0] if len(found) == 1 else Shape("or", tuple(found))

    def _one(self, level: int) -> Shape:
        shape = self._fields(level) if self.sign == "{" else self._word(level)
        while self.sign == "?":
            self._next()
            shape = shape if shape.word == "optional" else Shape("optional", (shape,))
        return shape

    def _word(self, level: int) -> Shape:
        column, given = self.column, self._next() if self.sign else ""
        word = _SPELLINGS.get(given.lower())
        if word is None:
            raise self._fault(f"{given[:64]!r} is no type" if given else "a type is missing", column)
        of = self._bracketed(level) if self.sign == "[" else ()
        if word == "object" and of:
            word = "map"
        if (of or word == "optional") and len(of) not in _COUNTS.get(word, ()):
            raise self._fault(f"{given} does not have {len(of)} types in brackets", column)
        if word == "map" and of and of[0].word != "string":
            raise self._fault(f"the keys of {given} must be strings", column)
        return Shape(word, of)

    def _bracketed(self, level: int) -> tuple[Shape, ...]:
        self._expect("[")
        found = [self._type(level + 1)]
        while self.sign == ",":
            self._next()
            found.append(self._type(level + 1))
        self._expect("]")
        return tuple(found)

    def _fields(self, level: int) -> Shape:
        self._expect("{")
        found = dict[str, Shape]()
        while self.sign != "}":
            if found:
                self._expect(",")
            if not self.sign or not (self.sign[0].isalpha() or self.sign[0] == "_") or self.sign in found:
                raise self._fault("the name of a field is expected, each once")
            name = self._next()
            self._expect(":")
            found[name] = self._type(level + 1)
        self._next()
        return Shape("fields", tuple(found.values()), tuple(found))
