"""Parses a YAML file into a tree, within limits. The only module that uses PyYAML.

An alias stands for a copy of what it names, so a short file can be a tree without end: nodes and levels are counted as
the tree has them. Error texts of PyYAML contain a part of the file, which may be a secret. Only the description of the
problem is used, without anything that it quotes.
"""

import re
from dataclasses import replace
from pathlib import Path

import yaml
from yaml.composer import ComposerError

from pallas_teams.faults import FaultList, FieldPath, Mark
from pallas_teams.shape import Branch, Entry, Leaf, Node, Row

MOST_BYTES = 512 * 1024
MOST_LEVELS = 100
MOST_NODES = 50_000
_LONGEST_VALUE = 1000
"""Characters of a number or another value that is no text: converting long ones takes too long."""

_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
_QUOTED = re.compile(r"""(?<!\S)(['"])(?!<)[^'"]{3,}\1""")


def parse_file(path: Path, faults: FaultList, *, secret: bool = False, foreign: bool = False) -> Branch | None:
    """Parse a file that must contain a mapping; an empty file is an empty mapping.

    Returns None if the file cannot be parsed, with the reason in `faults`. `secret` sets that flag of all its marks.
    In a `foreign` file, which is fast-agent's, a key that is given twice is a warning, and the last one is used. Merge
    keys (`<<`) are followed.
    """
    top = Mark(str(path), 1, 1, secret)
    text = _text(path, faults)
    if text is None:
        return None
    node = _compose(text, top, faults, foreign=foreign)
    if node is None or isinstance(node, Branch):
        return node
    if isinstance(node, Leaf) and node.value is None:
        return Branch(top, {})
    faults.add(node.mark, (), "must be a mapping of fields")
    return None


def parse_front_matter(path: Path, faults: FaultList) -> Branch | None:
    """Parse what stands between the lines of three dashes at the beginning of a Markdown file; None if nothing does."""
    top = Mark(str(path), 1, 1)
    text = _text(path, faults)
    lines = text.splitlines() if text is not None else []
    if not lines or lines[0].strip() != "---":
        return None
    ends = [number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"]
    if not ends:
        faults.add(top, (), "has no line of three dashes that ends its front matter")
        return None
    node = _compose("\n".join(["", *lines[1 : ends[0]]]), top, faults, foreign=True)
    if node is None or isinstance(node, Branch):
        return node
    faults.add(node.mark, (), "must be a mapping of fields")
    return None


def _text(path: Path, faults: FaultList) -> str | None:
    """The text of a file; None if it cannot be read, with the reason in `faults`."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device could be read for ever
            faults.add(Mark(str(path)), (), "is not a file")
            return None
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            faults.add(Mark(str(path)), (), f"is larger than {MOST_BYTES // 1024} KiB")
            return None
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        faults.add(Mark(str(path), error.object[: error.start].count(b"\n") + 1, 1), (), "is not UTF-8 text")
    except OSError as error:
        faults.add(Mark(str(path)), (), f"cannot be read: {error.strerror or type(error).__name__}")
    return None


class _Loader(yaml.SafeLoader):
    """PyYAML composes nodes by recursion: this ends it in time."""

    _level = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._level += 1
        if self._level > MOST_LEVELS:
            mark = parent.start_mark if parent is not None else None
            raise ComposerError(None, None, f"it has more than {MOST_LEVELS} levels", mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._level -= 1


def _compose(text: str, top: Mark, faults: FaultList, *, foreign: bool) -> Node | None:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return Leaf(top, None) if node is None else _Grafter(loader, top, faults, foreign=foreign).graft(node)
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        faults.add(Mark(top.file, line, 1), (), "is not valid YAML: a character that YAML does not allow")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Mark(top.file, mark.line + 1, mark.column + 1) if mark else top
        problem = _QUOTED.sub("'…'", error.problem or "it cannot be parsed")
        faults.add(place, (), f"is not valid YAML: {problem}")
    return None


class _Grafter:
    """Converts PyYAML's nodes. It keeps the nodes that it is inside of: an alias may refer to its own parent."""

    def __init__(self, loader: yaml.SafeLoader, top: Mark, faults: FaultList, *, foreign: bool) -> None:
        self._loader = loader
        self._top = top
        self._faults = faults
        self._foreign = foreign
        self._inside: set[int] = set()
        self._nodes = 0

    def graft(self, node: yaml.Node, path: FieldPath = ()) -> Node:
        mark = self._mark(node)
        self._nodes += 1
        if self._nodes > MOST_NODES or len(self._inside) > MOST_LEVELS:
            limit = f"{MOST_NODES} values" if self._nodes > MOST_NODES else f"{MOST_LEVELS} levels"
            problem = f"it has more than {limit}, with what its aliases stand for"
            raise ComposerError(None, None, problem, node.start_mark)
        if id(node) in self._inside:
            self._faults.add(mark, path, "contains itself")
            return Leaf(mark, None)
        self._inside.add(id(node))
        try:
            match node:
                case yaml.MappingNode():
                    return self._branch(node, mark, path)
                case yaml.SequenceNode():
                    return Row(mark, tuple(self.graft(item, (*path, n)) for n, item in enumerate(node.value)))
                case _:
                    return Leaf(mark, self._value(node, mark, path), mark.secret)
        finally:
            self._inside.discard(id(node))

    def _branch(self, node: yaml.MappingNode, mark: Mark, path: FieldPath) -> Branch:
        entries, merged = dict[str, Entry](), dict[str, Entry]()
        for key, value in node.value:
            place = self._mark(key)
            if self._foreign and key.tag == _MERGE:
                merged |= self._merged(self.graft(value, (*path, "<<")), path)
                continue
            if not isinstance(key, yaml.ScalarNode):
                self._faults.add(place, path, "a key must be plain text")
                continue
            if key.value in entries:
                message = f"this key is given twice, first on line {entries[key.value].mark.line}"
                if not self._foreign:
                    self._faults.add(place, path, message)
                    continue
                self._faults.warn(place, f"{message}; fast-agent uses this one")
            entries[key.value] = Entry(place, self.graft(value, (*path, key.value)))
        return Branch(mark, merged | entries)

    def _merged(self, node: Node, path: FieldPath) -> dict[str, Entry]:
        """The entries of a merge key: of a mapping, or of a list of some, of which the first comes first."""
        match node:
            case Branch():
                return node.entries
            case Row(items=[*items]) if all(isinstance(item, Branch) for item in items):
                branches = [item.entries for item in reversed(items) if isinstance(item, Branch)]
                return {key: entry for entries in branches for key, entry in entries.items()}
            case _:
                self._faults.add(node.mark, (*path, "<<"), "must be a mapping, or a list of mappings")
                return {}

    def _value(self, node: yaml.Node, mark: Mark, path: FieldPath) -> object:
        try:
            if node.tag != _TEXT and len(node.value) > _LONGEST_VALUE:
                raise ValueError("too long")
            return self._loader.construct_object(node)  # pyright: ignore[reportUnknownMemberType] - untyped stub
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, ArithmeticError, TypeError):
            # PyYAML does not check the text behind an explicit tag, as in `!!bool maybe`.
            self._faults.add(mark, path, "is not a value that YAML knows; put it in quotes")
            return ""

    def _mark(self, node: yaml.Node) -> Mark:
        return replace(self._top, line=node.start_mark.line + 1, column=node.start_mark.column + 1)
