"""Whether a check is so small that it may be made on the event loop, by a bound that knows no more than sizes.

The work of a check (`work.py`) is counted by what each keyword does, and a keyword that does more than it seems makes
the count too low. So the count is not what keeps the loop free. A schema is plain if it uses but keywords that look at
a value once, and its size with each `$ref` replaced by what it names is small. A value is looked at once by each of
these at most: the check takes no more than the product of both sizes.
"""

from collections.abc import Collection

from pallas_schemas.parts import Json, JsonObject, size_of

LARGEST_PLAIN = 1_000
"""The size of a plain schema. To compile it takes 10 ms at most."""

_SCHEMA = frozenset({"items", "additionalProperties", "not"})
_SCHEMAS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "$defs"})
_PLAIN = frozenset(
    (
        *("type", "required", "enum", "const", "format", "title", "description", "default", "examples"),
        *("$schema", "$id", "$comment"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "minProperties", "maxProperties", "deprecated", "readOnly", "writeOnly"),
    )
)
"""What costs its own size at most, or nothing."""


def plain_size(schema: JsonObject) -> int | None:
    """The size of a plain schema with its references replaced; None if it is not plain."""
    total, waiting = 0, list[Json]([schema])
    while waiting and total + len(waiting) <= LARGEST_PLAIN:
        part = waiting.pop()
        total += 1
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            return None
        for keyword, value in part.items():
            if (inside := _inside(keyword, value, schema)) is None:
                return None
            waiting.extend(inside)
            total += 1 if inside else size_of(value, LARGEST_PLAIN)
    return None if waiting or total > LARGEST_PLAIN else total


def _inside(keyword: str, value: Json, schema: JsonObject) -> Collection[Json] | None:
    """The subschemas in a keyword, or the one that it names; None if it is not known to be cheap."""
    definitions: Json = schema.get("$defs")
    if keyword in _PLAIN or keyword.startswith("x-"):
        return ()
    if keyword in _SCHEMA:
        return (value,)
    if keyword in _SCHEMAS and isinstance(value, list):
        return value
    if keyword in _NAMED and isinstance(value, dict):
        return value.values()
    if keyword == "$ref" and isinstance(value, str) and isinstance(definitions, dict):
        _, _, name = value.partition("#/$defs/")
        return (definitions[name],) if name in definitions else None
    return None
