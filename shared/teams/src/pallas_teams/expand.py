"""Replaces `${NAME}` and `${NAME:-default}` in a tree by values of the environment.

An expanded value counts as secret, and is not expanded again. `$${` stands for a plain `${`. Files of fast-agent have
rules of their own.
"""

import re
from collections.abc import Callable, Mapping

from pallas_teams.faults import FaultList, FieldPath, Mark
from pallas_teams.tree import Branch, Entry, Leaf, Node, Row

_PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)\}|\$\{")
_FOREIGN = re.compile(r"\$\{([^}]+)\}")
_BODY = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


def expand(node: Node, environ: Mapping[str, str], faults: FaultList, path: FieldPath = ()) -> Node:
    """The tree with all texts expanded. A variable that is not set and has no default is a fault."""
    match node:
        case Branch():
            return Branch(
                node.mark,
                {
                    key: Entry(entry.mark, expand(entry.node, environ, faults, (*path, key)))
                    for key, entry in node.entries.items()
                },
            )
        case Row():
            items = (expand(item, environ, faults, (*path, n)) for n, item in enumerate(node.items))
            return Row(node.mark, tuple(items))
        case Leaf(value=str(text)) if "${" in text:
            return _Expansion(environ, faults, path).leaf(node, text)
        case Leaf():
            return node


def expand_foreign(node: Node, environ: Mapping[str, str]) -> Node:
    """The tree with the variables that fast-agent expands: an unset one without a default stays as it is."""
    match node:
        case Branch():
            entries = {key: Entry(it.mark, expand_foreign(it.node, environ)) for key, it in node.entries.items()}
            return Branch(node.mark, entries)
        case Row():
            return Row(node.mark, tuple(expand_foreign(item, environ) for item in node.items))
        case Leaf(value=str(text)) if "${" in text:
            return Leaf(node.mark, expand_text(text, environ), secret=True)
        case Leaf():
            return node


def expand_text(text: str, environ: Mapping[str, str], unset: Callable[[str], object] | None = None) -> str:
    """`${NAME}` and `${NAME:default}` as fast-agent has them, and `${NAME:-default}` as the rest of Pallas has it."""

    def put(found: re.Match[str]) -> str:
        name, colon, default = found[1].partition(":")
        if default.startswith("-"):
            return environ.get(name) or default[1:]
        if unset is not None and name not in environ and not colon:
            unset(name)
        return environ.get(name, default if colon else found[0])

    return _FOREIGN.sub(put, text)


class _Expansion:
    """The expansion of one leaf."""

    def __init__(self, environ: Mapping[str, str], faults: FaultList, path: FieldPath) -> None:
        self._environ = environ
        self._faults = faults
        self._path = path

    def leaf(self, leaf: Leaf, text: str) -> Leaf:
        expanded = _PLACEHOLDER.sub(lambda found: self._put(found, leaf.mark), text)
        return Leaf(leaf.mark, expanded, secret=True)

    def _put(self, found: re.Match[str], mark: Mark) -> str:
        if found.group() == "$${":
            return "${"
        body = _BODY.fullmatch(found["body"] or "")
        if body is None:
            self._faults.add(
                mark, self._path, "'${' must begin ${NAME} or ${NAME:-default}; write '$${' for a plain '${'"
            )
            return ""
        name, default = body["name"], body["default"]
        value = self._environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            self._faults.add(mark, self._path, f"environment variable {name!r} is not set and has no default")
        return value or ""
