"""A YAML file as a tree whose nodes know their place in the file, and whether their value may be shown.

Keys are always text, as written (`on:` is "on"). Merging and expansion make new trees with the same marks, so that a
fault in a merged configuration names the right file and line.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pallas_teams.faults import Mark

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
