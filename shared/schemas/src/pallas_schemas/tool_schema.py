"""A tool's schema, compiled: nothing is fetched, patterns take linear time, and what takes long is not checked.

Schema and arguments may both be made to do harm. What a schema may be is refused when it is compiled, what takes too
long to check when it is asked for (`work`). This runs on the event loop for what is small only: services use
`pallas_schemas.schema`.
"""

from dataclasses import dataclass
from typing import Any

import jsonschema_rs
from jsonschema_rs import Draft202012Validator, RegexOptions

from pallas_contracts.errors import Rejected
from pallas_schemas.parts import LONGEST_READ, Json, JsonObject, Parts
from pallas_schemas.work import MOST_LEVELS, TooMuch, Work

MOST_WORK = 5_000_000
"""What a check may take: about 0.2 s at worst, and nearly always far less."""

MOST_EXPLAINED = 20_000
"""To say where a fault is costs a thousand times as much as to find that there is one."""

_PATTERN_BYTES = (1 << 12, 1 << 14, 1 << 16, 1 << 18)
_BYTES_PER_WORK = 100
_MOST_OF_PATTERNS = 1 << 22
"""Bytes of all compiled patterns of a schema."""
_LONGEST = 80
UNEXPLAINED = "they break the tool's schema, and there is too much in them to say where"


class ToolSchema:
    """The input schema of a tool.

    Raises:
        Rejected: it is no schema that can be used; the message names the place and the reason.
    """

    def __init__(self, schema: JsonObject) -> None:
        # Its draft is 2020-12 whatever it says, and its address is nothing: all references are to itself.
        self._schema = {name: value for name, value in schema.items() if name not in ("$schema", "$id")}
        self._patterns = 0
        try:
            jsonschema_rs.meta.validate(self._schema)
            self._work = Work(Parts(self._schema, self._weigh))
            self._validator = _compiled(self._schema, _PATTERN_BYTES[-1])
        except jsonschema_rs.ValidationError as error:
            where = "".join(f"/{part}" for part in error.instance_path)
            raise Rejected(f"{where or '/'}: {error.message[:200]}") from error
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise Rejected(f"/: {str(error)[:200]}") from error
        except (AttributeError, TypeError) as error:  # the meta-schema does not look at what a $ref may name
            raise Rejected("/: what a $ref names is no schema") from error

    def faults(self, arguments: JsonObject) -> list[str]:
        """What does not fit: a sentence each, with the field and the rule, without values. Empty: all does."""
        try:
            visits = self.count(arguments)
        except TooMuch as error:
            return [str(error)]
        if self.fits(arguments):
            return []
        return self.explained(arguments) if visits <= MOST_EXPLAINED else [UNEXPLAINED]

    def count(self, arguments: JsonObject) -> int:
        """How much work it is to check them.

        Raises:
            TooMuch: it is too much, or to count it is.
        """
        return self._work.of(arguments, MOST_WORK)

    def fits(self, arguments: JsonObject) -> bool:
        """Whether there are no faults. However long that takes."""
        try:
            return self._validator.is_valid(arguments)
        except ValueError:  # there are too many levels
            return False

    def explained(self, arguments: JsonObject) -> list[str]:
        """The faults, of which there are some. However long that takes."""
        try:
            faults = {self._sentence(fault) for fault in self._validator.iter_errors(_Light().copy(arguments))}
        except ValueError:  # there are too many levels, or too many values to explain
            faults = set[str]()
        return sorted(faults) or [UNEXPLAINED]

    def _weigh(self, pattern: str, place: str) -> int:
        """The work of a pattern for each character: in the worst case it grows with the size of what it compiles to."""
        for size in _PATTERN_BYTES:
            try:
                _compiled({"pattern": pattern}, size)
            except jsonschema_rs.ValidationError:
                continue
            self._patterns += size
            if self._patterns > _MOST_OF_PATTERNS:
                raise Rejected("/: its patterns are too large in total")
            return size // _BYTES_PER_WORK
        raise Rejected(
            f"{place}: the pattern has to be a regular expression without look-around and back-references, "
            "and not too large (maxLength bounds a length)"
        )

    def _sentence(self, fault: jsonschema_rs.ValidationError) -> str:
        where = _short("/".join(map(str, fault.instance_path)) or "arguments")
        facts = fault.kind.as_dict()
        match fault.kind.name:
            case "type":
                return f"{where} must be of type {' or '.join(facts['types'])}"
            case "required":
                return f"{where}: {facts['property']!r} is required"
            case "additionalProperties" | "unevaluatedProperties":
                return f"{where}: unknown field {_short(', '.join(map(repr, sorted(facts['unexpected']))))}"
            case "falseSchema":
                return f"{where} is not allowed"
            case rule:
                return f"{where} breaks the rule {rule} ({_short(self._rule(fault.schema_path))})"

    def _rule(self, path: list[str | int]) -> Any:
        """What stands at a place of the schema."""
        found: Any = self._schema
        try:
            for step in path:
                found = found[step]
        except (LookupError, TypeError):
            return "/".join(map(str, path))
        return found


def _compiled(schema: JsonObject, pattern_bytes: int) -> Draft202012Validator:
    options = RegexOptions(size_limit=pattern_bytes, dfa_size_limit=1 << 20)
    return Draft202012Validator(schema, pattern_options=options, offline=True, mask="it")


@dataclass
class _Light:
    """Copies a value whose faults are to be explained: each fault takes a copy of what it is in."""

    _left: int = MOST_EXPLAINED

    def copy(self, value: Json, level: int = 0) -> Json:
        """The value with long texts cut.

        Raises:
            ValueError: there is too much in it.
        """
        self._left -= 1
        if self._left < 0 or level > MOST_LEVELS:
            raise ValueError("there is too much in it")
        match value:
            case str():
                return value[:LONGEST_READ]
            case dict():
                return {name: self.copy(inner, level + 1) for name, inner in value.items()}
            case list():
                return [self.copy(inner, level + 1) for inner in value]
            case _:
                return value


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
