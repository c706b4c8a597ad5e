"""Types as JSON Schema, and JSON Schema as types.

A schema can be anybody's: what is not understood, goes around in a circle or is too large is `Json`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pallas_cst import types as t
from pallas_cst.values import is_list, is_object

_PRIMITIVES = {"string": t.STRING, "integer": t.INT, "number": t.FLOAT, "boolean": t.BOOLEAN}
_NAMES: dict[t.Type, str] = {kind: name for name, kind in _PRIMITIVES.items()}
_NUMBER = re.compile(r"[0-9]{1,9}")
_MOST_READ = 30_000
_NULL = t.OptionalOf(t.NOTHING)


@dataclass
class Room:
    """What the schemas of one agent may take together: entries that are read, and parts of their types.

    What has no room is `Json`. Entries that are referred to count each time.
    """

    entries: int = 100_000
    parts: int = 50_000

    def bounded(self, kind: t.Type) -> t.Type:
        """The type itself if there is room for it."""
        if t.is_too_large(kind) or kind.size > self.parts:
            return t.JSON
        self.parts -= kind.size
        return kind


def type_of(schema: Any, room: Room | None = None) -> t.Type:
    """The type of the values that a schema describes."""
    room = room or Room()
    return room.bounded(_Reader(schema, room).type(schema, t.MOST_DEPTH))


def parameters_of(input_schema: Any, room: Room | None = None) -> tuple[tuple[tuple[str, t.Type], ...], int]:
    """The parameters of a tool, those first that must be given, and how many of them there are.

    Names are those of the properties, also if the language cannot write them: parameters are given by position.
    """
    room = room or Room()
    reader = _Reader(input_schema, room)
    schema = reader.resolved(input_schema)
    properties = _object(schema.get("properties"))
    required = _required(schema)
    needed = [
        *(name for name in properties if name in required),
        *(name for name in required if name not in properties),
    ]
    found = {name: room.bounded(reader.type(properties[name], t.MOST_DEPTH - 1)) for name in properties}
    found |= dict.fromkeys(required.keys() - found.keys(), t.JSON)
    found = {name: found[name] for name in (*needed, *properties)}
    parameters = tuple((name, kind if name in required else _optional(kind)) for name, kind in found.items())
    return parameters, len(needed)


def schema_of(kind: t.Type) -> dict[str, Any]:
    """The schema (2020-12) of the JSON of a type, as `values.to_json` writes it and `values.from_json` reads it."""
    match kind:
        case t.ListOf(item) | t.SeqOf(item):
            return {"type": "array", "items": schema_of(item)}
        case t.MapOf(t.STRING, value):
            return {"type": "object", "additionalProperties": schema_of(value)}
        case t.MapOf(key, value):
            pair = {"type": "array", "prefixItems": [schema_of(key), schema_of(value)], "minItems": 2, "maxItems": 2}
            return {"type": "array", "items": pair}
        case t.OptionalOf(inner):
            return {"anyOf": [schema_of(inner), {"type": "null"}]}
        case t.Record(fields):
            return object_schema(fields)
        case t.Union(members):
            ordered = sorted(members, key=str)
            return {"anyOf": [*map(schema_of, ordered), *map(_tagged, ordered)]}
        case _:
            return {"type": _NAMES[kind]} if kind in _NAMES else {}


def object_schema(fields: Mapping[str, t.Type]) -> dict[str, Any]:
    """The schema of an object with these fields. Optional ones may be missing."""
    required = [name for name, kind in fields.items() if not isinstance(kind, t.OptionalOf)]
    properties = {name: schema_of(kind) for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "required": required}


def _tagged(member: t.Type) -> dict[str, Any]:
    """The schema of a member of a union with its tag."""
    return {
        "type": "object",
        "properties": {"tag": {"const": str(member)}, "value": schema_of(member)},
        "required": ["tag", "value"],
        "additionalProperties": False,
    }


def _optional(kind: t.Type) -> t.Type:
    return kind if isinstance(kind, t.OptionalOf) else t.OptionalOf(kind)


def _object(value: Any) -> dict[str, Any]:
    return value if is_object(value) else {}


def _items(value: Any) -> list[Any]:
    return value if is_list(value) else []


def _required(schema: Mapping[str, Any]) -> dict[str, None]:
    return dict.fromkeys(name for name in _items(schema.get("required")) if isinstance(name, str))


class _Reader:
    """Reads the schemas in a document, until it has seen `_MOST_READ` entries of objects and lists, or has no room."""

    def __init__(self, document: Any, room: Room) -> None:
        self._document = document
        self._room = room
        self._left = _MOST_READ
        self._within: list[str] = []
        self._at = cache(self._part)

    def resolved(self, schema: Any) -> dict[str, Any]:
        """The schema behind a chain of local references, {} if there is none."""
        seen = set[str]()
        while isinstance(reference := _object(schema).get("$ref"), str) and reference not in seen:
            seen.add(reference)
            schema = self._at(reference)
        return {} if seen and "$ref" in _object(schema) else _object(schema)

    def type(self, schema: Any, depth: int) -> t.Type:
        """The type of a schema that may have `depth` levels."""
        if not is_object(schema) or depth <= 0 or self._left < 0 or self._room.entries < 0:
            return t.JSON
        read = 1 + sum(1 + (len(each) if is_list(each) or is_object(each) else 0) for each in schema.values())
        self._left -= read
        self._room.entries -= read
        if isinstance(reference := schema.get("$ref"), str):
            return self._referred(reference, depth)
        alternatives = _items(schema.get("anyOf")) or _items(schema.get("oneOf"))
        parts = _items(schema.get("allOf"))
        if alternatives:
            kind = _united(self.type(each, depth - 1) for each in alternatives)
        elif parts and not {"properties", "type"} & schema.keys():
            kind = _all_of([self.type(each, depth - 1) for each in parts])
        elif "const" in schema or "enum" in schema:
            values = [schema["const"]] if "const" in schema else _items(schema["enum"])
            kind = _united(map(_type_of_value, values))
        else:
            kind = self._typed(schema, depth)
        return _optional(kind) if schema.get("nullable") is True and kind != t.JSON else kind

    def _referred(self, reference: str, depth: int) -> t.Type:
        if reference in self._within:
            return t.JSON
        self._within.append(reference)
        try:
            return self.type(self._at(reference), depth - 1)
        finally:
            self._within.pop()

    def _part(self, reference: str) -> Any:
        """The part of the document that a local reference points to."""
        found = self._document
        if reference != "#" and not reference.startswith("#/"):
            return None
        for step in reference.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_list(found):
                found = found[int(name)] if _NUMBER.fullmatch(name) and int(name) < len(found) else None
            else:
                found = _object(found).get(name)
        return found

    def _typed(self, schema: dict[str, Any], depth: int) -> t.Type:
        names = schema.get("type")
        if is_list(names):
            return _united(self._named(name, schema, depth) for name in names)
        if names is None and "properties" in schema:
            names = "object"
        return self._named(names, schema, depth)

    def _named(self, name: Any, schema: dict[str, Any], depth: int) -> t.Type:
        match name:
            case "string" | "integer" | "number" | "boolean":
                return _PRIMITIVES[name]
            case "null":
                return _NULL
            case "array":
                return self._list(_object(schema.get("items")), depth - 1)
            case "object":
                return self._record(schema, depth)
            case _:
                return t.JSON

    def _list(self, item: dict[str, Any], depth: int) -> t.Type:
        """A list; one of pairs is a map."""
        match item:
            case {"type": "array", "prefixItems": [key, value], "minItems": 2, "maxItems": 2}:
                return t.MapOf(self.type(key, depth - 1), self.type(value, depth - 1))
            case _:
                return t.ListOf(self.type(item, depth))

    def _record(self, schema: dict[str, Any], depth: int) -> t.Type:
        properties = _object(schema.get("properties"))
        others = schema.get("additionalProperties")
        if not properties:
            return t.MapOf(t.STRING, self.type(others, depth - 1)) if _object(others) else t.JSON
        required = _required(schema)
        found = {name: self.type(each, depth - 1) for name, each in properties.items()}
        if _is_tagged(properties, found):
            return found["value"]
        return t.Record({name: kind if name in required else _optional(kind) for name, kind in found.items()})


def _is_tagged(properties: Mapping[str, Any], found: Mapping[str, t.Type]) -> bool:
    """Whether it is a member of one of our unions with its tag."""
    return set(properties) == {"tag", "value"} and _object(properties["tag"]).get("const") == str(found["value"])


def _united(kinds: Iterable[t.Type]) -> t.Type:
    """One of these types; with null among them, an Optional."""
    found = [(kind.inner, True) if isinstance(kind, t.OptionalOf) else (kind, False) for kind in kinds]
    members = {kind for kind, _ in found} - {t.NOTHING}
    if t.FLOAT in members:
        members.discard(t.INT)
    kind = t.union(members) if members else t.NOTHING if found else t.JSON
    nullable = any(optional for _, optional in found) and kind != t.JSON
    return t.OptionalOf(kind) if nullable else kind


def _all_of(kinds: list[t.Type]) -> t.Type:
    """All of these types at once: the fields of all records, else what only one of them says."""
    said = [kind for kind in kinds if kind != t.JSON]
    if len(said) == 1:
        return said[0]
    records = [kind.fields for kind in said if isinstance(kind, t.Record)]
    if not records or len(records) < len(said):
        return t.JSON
    return t.Record({name: kind for fields in records for name, kind in fields.items()})


def _type_of_value(value: object) -> t.Type:
    return _NULL if value is None else t.PRIMITIVE_OF.get(type(value), t.JSON)
