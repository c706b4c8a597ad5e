"""Puts the stanza with a team's JWT into a file of secrets, without showing it.

Other content of the file stays as it is, comments included. The file is checked before the JWT is revealed, because it
is revealed only once.
"""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, TypeIs

from pallas_cli.private_files import write_atomically
from pallas_cli.refused import Refused

type Tree = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class SecretsFile:
    """A file that was read and can be written. `path` is the file itself, behind all links.

    `head` is the text of a file that has nothing but comments.
    """

    path: Path
    head: str = field(repr=False)
    tree: Tree = field(repr=False)

    def put(self, stanza: str) -> None:
        """Merge a stanza into the file, which is then private to its owner.

        Raises:
            Refused: it cannot be written. The file is unchanged.
        """
        text = StringIO(self.head)
        text.seek(0, 2)
        _merge(self.tree, _yaml().load(stanza))
        _yaml().dump(self.tree, text)
        try:
            write_atomically(self.path, text.getvalue())
        except OSError as error:
            raise Refused(f"{self.path}: {error.strerror}") from None


def secrets_file(path: Path) -> SecretsFile:
    """Read a file, which may be missing.

    Raises:
        Refused: it cannot be read or written, is no YAML mapping, or `mcp.servers` in it is none.
    """
    path = path.resolve()
    text = _read(path)
    tree = _parsed(path, text)
    _check_places(path, tree)
    return SecretsFile(path, "" if tree else text, tree)


def reveal_into(path: Path, reveal: Callable[[], str]) -> Path:
    """Put the stanza that `reveal` returns into the file; `reveal` is called when everything is checked.

    Raises:
        Refused: see `secrets_file` and `SecretsFile.put`, or `reveal` raises it.
    """
    file = secrets_file(path)
    stanza = reveal()
    try:
        file.put(stanza)
    except Refused as refusal:
        raise Refused(*refusal.lines, "the JWT was revealed and is lost: rotate it and try again") from None
    return file.path


def _read(path: Path) -> str:
    """The text of the file, whose folder can be written."""
    attempt = path.with_name(f".{path.name}.check")
    try:
        attempt.touch(0o600)
        attempt.unlink()
        return path.read_text("utf-8") if path.exists() else ""
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Refused(f"{path}: is not UTF-8") from None


def _parsed(path: Path, text: str) -> Tree:
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        tree = _yaml().load(text) if _has_content(text) else _yaml().map()
    except MarkedYAMLError as error:
        # The error itself would quote the file, which holds secrets.
        mark: Any = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise Refused(f"{path}: {line}is not valid YAML") from None
    except YAMLError:
        raise Refused(f"{path}: is not valid YAML") from None
    if not _is_tree(tree):
        raise Refused(f"{path}: is no mapping")
    return tree


def _has_content(text: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _check_places(path: Path, tree: Tree) -> None:
    place = list[str]()
    for name in ("mcp", "servers"):
        place.append(name)
        found = tree.get(name)
        if found is None:
            return
        if not _is_tree(found):
            raise Refused(f"{path}: {'.'.join(place)} is no mapping")
        tree = found


def _is_tree(value: object) -> TypeIs[Tree]:
    return isinstance(value, MutableMapping)


def _merge(into: Tree, new: Tree) -> None:
    for key, value in new.items():
        old = into.get(key)
        if _is_tree(old) and _is_tree(value):
            own: Any = old
            if own.yaml_anchor() is not None:  # other servers share it, and must not get the JWT
                into[key] = own = type(own)(own)
            _merge(own, value)
        else:
            into[key] = value


def _yaml() -> Any:
    """A reader and writer that keeps comments; its types are not known."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1_000_000  # a JWT stays on its line
    return yaml
