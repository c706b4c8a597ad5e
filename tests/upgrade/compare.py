"""What a contract of the release before says that this one does not say any more."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TOLD = frozenset({"title", "description", "default", "examples"})
"""Keys of a schema that say nothing about what is valid."""

_NAMED = re.compile(r"^\| `([^`]+)` \| (?:`([^`]+)` \|)?", re.MULTILINE)


def breaks(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Why readers or writers of the one schema would not understand those of the other.

    Fields may be added with a default, and values to an enumeration, which readers take as words.
    """
    of = {"": before, **before.get("$defs", {})}
    return [fault for name, old in of.items() for fault in _breaks(name, old, _part(now, name))]


def _part(schema: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return schema if not name else schema.get("$defs", {}).get(name)


def _breaks(name: str, old: Mapping[str, Any], new: Mapping[str, Any] | None) -> Iterator[str]:
    if new is None:
        yield f"{name} is gone"
        return
    place = f"{name}." if name else ""
    fields: Mapping[str, Any] = new.get("properties", {})
    for field, was in old.get("properties", {}).items():
        if field not in fields:
            yield f"{place}{field} is gone"
        elif fault := _differs(was, fields[field]):
            yield f"{place}{field}: {fault}"
    for field in new.get("required", ()):
        if field not in old.get("required", ()):
            yield f"{place}{field} is required now"


def _differs(was: Any, now: Any) -> str | None:
    """Why a value of a field is not what it was; None if it is, or may be more."""
    old, new = _plain(was), _plain(now)
    if set(old.pop("enum", ())) - set(new.pop("enum", ())):
        return "values are gone"
    for union in ("anyOf", "oneOf"):
        if any(each not in new.get(union, ()) for each in old.pop(union, ())):
            return "a form is gone"
        if union in was:
            new.pop(union, None)
    for schema in (old, new):
        schema.pop("discriminator", None)
    if isinstance(old.get("items"), dict):
        inner = _differs(old.pop("items"), new.pop("items", {}))
        if inner:
            return inner
    return None if old == new else "another type"


def _plain(schema: Any) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in _TOLD}


def contracts(page: str) -> dict[str, set[str]]:
    """The names in each table of a page before the fields of messages: streams, messages with subjects, error codes."""
    parts = page.split("\n## Fields of the messages")[0].split("\n## ")[1:]
    return {part.partition("\n")[0]: {" ".join(filter(None, row)) for row in _NAMED.findall(part)} for part in parts}
