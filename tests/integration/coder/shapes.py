"""The shape of JSON: which fields an object has, and of which kinds their values are."""

import json
from collections.abc import Iterable
from typing import Any

from tests.contract.tree import ROOT

DATA = ROOT / "tests" / "data" / "coder"
_OF_ANY_NAME = ("latency", "environment_variables")


def recorded(name: str) -> Any:
    """A file of recorded exchanges, or an OpenAPI document."""
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


class Shape:
    """What all values seen at one place have in common."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.fields: dict[str, Shape] = {}
        self.always: set[str] | None = None
        self.items: Shape | None = None

    def add(self, value: Any) -> None:
        """See one more value."""
        self.kinds.add(kind_of(value))
        if kind_of(value) == "object":
            fields: dict[str, Any] = value
            self.always = set(fields) if self.always is None else self.always & set(fields)
            for name, one in fields.items():
                self.fields.setdefault(name, Shape()).add(one)
        elif kind_of(value) == "array":
            self.items = self.items or Shape()
            items: list[Any] = value
            for one in items:
                self.items.add(one)

    def faults(self, value: Any, at: str = "") -> Iterable[str]:
        """Where a value differs from all that were seen. What was seen only as null or empty may be anything."""
        if self.kinds == {"null"}:
            return
        if kind_of(value) not in self.kinds:
            yield f"{at}: {kind_of(value)}, not {sorted(self.kinds)}"
        elif kind_of(value) == "object" and not at.endswith(_OF_ANY_NAME):
            fields: dict[str, Any] = value
            missing, unknown = (self.always or set()) - set(fields), set(fields) - set(self.fields)
            yield from (f"{at}: no {name}" for name in sorted(missing))
            yield from (f"{at}: {name} is not recorded" for name in sorted(unknown))
            for name in set(fields) & set(self.fields):
                yield from self.fields[name].faults(fields[name], f"{at}.{name}")
        elif kind_of(value) == "array" and self.items and self.items.kinds:
            items: list[Any] = value
            for one in items:
                yield from self.items.faults(one, f"{at}[]")


def kind_of(value: Any) -> str:
    """JSON's word for the kind of a value."""
    for kinds, name in ((bool, "boolean"), ((int, float), "number"), (str, "string"), (dict, "object")):
        if isinstance(value, kinds):
            return name
    return "null" if value is None else "array"
