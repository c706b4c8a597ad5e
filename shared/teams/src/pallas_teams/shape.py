"""Checks a tree against the schema: one fault for each error of pydantic, with its place in the file."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pallas_teams.faults import FaultList, FieldPath, Mark

type Node = Leaf | Row | Branch


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar. `secret` values come from the secrets file or the environment and are never quoted."""

    mark: Mark
    value: object = field(repr=False)
    secret: bool = False

    @property
    def quoted(self) -> str:
        """The value for a message; \"the value\" if it is secret."""
        return "the value" if self.secret else repr(self.value)


@dataclass(frozen=True, slots=True)
class Row:
    """A list."""

    mark: Mark
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value; `mark` is the place of the key."""

    mark: Mark
    node: Node


@dataclass(frozen=True, slots=True)
class Branch:
    """A mapping."""

    mark: Mark
    entries: dict[str, Entry]

    def node(self, *path: str) -> Node | None:
        """The node at the end of `path`, or None."""
        found: Node = self
        for key in path:
            if not isinstance(found, Branch) or key not in found.entries:
                return None
            found = found.entries[key].node
        return found

    def branch(self, *path: str) -> "Branch":
        """The mapping at the end of `path`; an empty one if there is none."""
        found = self.node(*path)
        return found if isinstance(found, Branch) else Branch(self.mark, {})

    def text(self, *path: str) -> Leaf | None:
        """The leaf with text at the end of `path`, or None."""
        found = self.node(*path)
        return found if isinstance(found, Leaf) and isinstance(found.value, str) else None

    def texts(self, *path: str) -> Iterator[tuple[int, Leaf]]:
        """The texts in the list at the end of `path`, each with its position. Other items are left out."""
        found = self.node(*path)
        for position, item in enumerate(found.items if isinstance(found, Row) else ()):
            if isinstance(item, Leaf) and isinstance(item.value, str):
                yield position, item

    def has(self, key: str) -> bool:
        """Whether there is a value under `key`. `key:` with nothing behind it has none."""
        found = self.node(key)
        return found is not None and not is_empty(found)


def is_empty(node: Node) -> bool:
    """Whether the node is a missing value (`key:` with nothing behind it)."""
    return isinstance(node, Leaf) and node.value is None


def merge(base: Node, over: Node) -> Node:
    """Merge `over` into `base`: mappings by key; a missing value changes nothing, any other value replaces."""
    if is_empty(over):
        return base
    if not isinstance(base, Branch) or not isinstance(over, Branch):
        return over
    entries = dict(base.entries)
    for key, entry in over.entries.items():
        known = entries.get(key)
        entries[key] = Entry(known.mark, merge(known.node, entry.node)) if known else entry
    return Branch(base.mark, entries)


def plain(node: Node) -> object:
    """The tree as plain values. Keys without a value are left out, so that their defaults are used."""
    match node:
        case Leaf():
            return node.value
        case Row():
            return [plain(item) for item in node.items]
        case Branch():
            return {key: plain(entry.node) for key, entry in node.entries.items() if not is_empty(entry.node)}


_PREFIX = re.compile(r"^(?:Input|String|Tuple) should ")

_MESSAGES = {
    "missing": "is needed",
    "string_type": "must be text (put a number, date or true/false in quotes)",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "model_type": "must be a mapping of fields",
    "dict_type": "must be a mapping",
    "tuple_type": "must be a list",
}


def parse_shape[S: BaseModel](schema: type[S], tree: Branch, faults: FaultList) -> S | None:
    """The tree as `schema`; None if it does not match, with the reasons in `faults`."""
    try:
        return schema.model_validate(plain(tree))
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
    for detail in details:
        _add(schema, tree, detail, faults)
    return None


def suggestion(name: str, known: set[str]) -> str:
    """`; did you mean 'x'?` when a known name is close, else nothing."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def _add(schema: type[BaseModel], tree: Branch, detail: ErrorDetails, faults: FaultList) -> None:
    path = tuple(part for part in detail["loc"] if part != "[key]")
    if detail["type"] == "extra_forbidden":
        _add_unknown(schema, tree, path, faults)
        return
    message = _MESSAGES.get(detail["type"]) or _PREFIX.sub("must ", detail["msg"].removeprefix("Value error, "))
    faults.add(_place(tree, path), path, message)


def _add_unknown(schema: type[BaseModel], tree: Branch, path: FieldPath, faults: FaultList) -> None:
    """Add the fault of an unknown key. One in the secrets file is not quoted: it may be a misplaced secret."""
    name = str(path[-1])
    hint = suggestion(name, known_fields(schema, path[:-1]))
    entry = _entry(tree, path)
    mark = entry.mark if entry else tree.mark
    named = "" if mark.secret else f" {name!r}"
    faults.add(mark, path, f"unknown field{named}{hint}")


def known_fields(schema: type[BaseModel], path: FieldPath) -> set[str]:
    """The fields that a mapping at `path` may have; empty if it may have any."""
    section: object = schema
    for part in path:
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            return set()
        field = section.model_fields.get(str(part))
        section = _section_in(field.annotation) if field else section
    return set(section.model_fields) if isinstance(section, type) and issubclass(section, BaseModel) else set()


def _section_in(annotation: object) -> object:
    """The model inside an annotation such as `Model | None` or `dict[str, Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_section_in(argument) for argument in get_args(annotation))
    return next((found for found in inner if found is not None), None)


def _place(tree: Branch, path: FieldPath) -> Mark:
    """The mark of the value at `path`, or of the nearest node above it."""
    node: Node = tree
    for part in path:
        if isinstance(node, Branch) and str(part) in node.entries:
            node = node.entries[str(part)].node
        elif isinstance(node, Row) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            break
    return node.mark


def _entry(tree: Branch, path: FieldPath) -> Entry | None:
    parent = tree.node(*(str(part) for part in path[:-1]))
    return parent.entries.get(str(path[-1])) if isinstance(parent, Branch) else None
