"""Replaces `${NAME}` and `${NAME:-default}` in a tree by values of the environment.

An expanded value counts as secret, and is not expanded again. `$${` stands for a plain `${`.
"""

import re
from collections.abc import Mapping

from pallas_teams.faults import FaultList, FieldPath, Mark
from pallas_teams.tree import Branch, Entry, Leaf, Node, Row

_PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)\}|\$\{")
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
