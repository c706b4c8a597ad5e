"""What of a folder is not looked at although it may have agents: one sentence for each kind, with an example."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pallas_teams.faults import LARGEST_FILE, read_file

_MOST_FILES, _DEEPEST = 20_000, 8
_CARD = re.compile(rb"^(servers|agents|instruction|model):|^type:\s*(agent|chain|parallel|router|orchestrator)\b", re.M)
_OWN_CARDS = "agent-cards"
_FIRST = 2000
"""Bytes of a Markdown file that are read."""


@dataclass(slots=True)
class _Kind:
    """Files of one kind."""

    one: str
    many: str
    why: str
    paths: list[Path] = field(default_factory=list[Path])

    def sentence(self) -> str:
        """What is not looked at."""
        count = len(self.paths)
        return f"{count} {self.one if count == 1 else self.many} not looked at, such as {self.paths[0]}: {self.why}"


def passed_over(folder: Path, configs: Collection[str], looked_at: Collection[Path], *, top: bool) -> Iterator[str]:
    """A sentence for each kind of what is not looked at.

    `configs` are the names of fast-agent's files of settings, `looked_at` are the real paths of the sources of the
    team. `top`: they are programs at the top of the folder.
    """
    why = "there are programs at the top" if top else "it is too deep below the top"
    programs = _Kind("program is", "programs are", f"{why}; name its agents in an agents.yaml")
    others = _Kind("folder is", "folders are", "it has settings of its own; give it as a team folder, too")
    cards = _Kind("card is", "cards are", "cards are looked for in .fast-agent/agent-cards and agent-cards only")
    books = _Kind("notebook is", "notebooks are", "agents are looked for in Python files and cards")
    large = _Kind("file is", "files are", f"it is larger than {LARGEST_FILE // 1024 // 1024} MiB")
    own: set[Path] = set()
    for path in _files(folder):
        shown = path.relative_to(folder)
        deep = len(shown.parts) > 1
        if deep and path.name in configs and path.parent.name != ".fast-agent":
            others.paths.append(shown.parent)
            own.add(path.parent)
        if any(parent in own for parent in path.parents):
            continue
        try:
            if path.suffix in (".py", ".ipynb") and path.stat().st_size > LARGEST_FILE:
                large.paths.append(shown)
            elif path.suffix == ".py" and deep and b"FastAgent(" in read_file(path):
                programs.paths.append(shown)
            elif path.suffix == ".ipynb" and b"FastAgent(" in read_file(path):
                books.paths.append(shown)
            elif deep and path.suffix == ".md" and _is_card(path):
                cards.paths.append(shown)
        except OSError:
            continue
    for kind in (programs, cards):
        kind.paths = [path for path in kind.paths if (folder / path).resolve() not in looked_at]
    yield from (kind.sentence() for kind in (programs, others, cards, books, large) if kind.paths)


def _is_card(path: Path) -> bool:
    if path.name.startswith(("SKILL.", "README")):
        return False
    with path.open("rb") as file:
        start = file.read(_FIRST)
    return start.startswith(b"---") and (
        path.parent.name == _OWN_CARDS or _CARD.search(start.split(b"\n---")[0]) is not None
    )


def _files(folder: Path) -> Iterator[Path]:
    """Files of a folder, those with settings first in each; not those of packages, and of hidden folders."""
    count = 0
    for parent, folders, files in folder.walk():
        if len(parent.relative_to(folder).parts) >= _DEEPEST or "pyvenv.cfg" in files:
            folders.clear()
            if "pyvenv.cfg" in files:
                continue
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name != "node_modules")
        for name in sorted(files, key=lambda each: (not each.startswith("fast"), each)):
            if name.endswith((".py", ".md", ".ipynb", ".yaml")):
                yield parent / name
        count += len(files)
        if count > _MOST_FILES:
            return
