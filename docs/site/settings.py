"""The page with all settings of all services, from the tables of their READMEs."""

import re
from collections import defaultdict
from pathlib import Path

from docs.site.paths import DOCS, NOTE, ROOT

PAGE = DOCS / "settings.md"

_ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.+) \|$", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")
_INTRODUCTION = (
    "Every setting is an environment variable. The same name with `_FILE` appended names a file that holds the value.\n"
    "An invalid value stops the start with a message that names the variable."
)


def settings() -> str:
    """The page, in the order of the variables' names."""
    found = defaultdict[str, list[str]](list)
    for name, default, meaning in _table(DOCS / "architecture.md", "## Settings of every process"):
        found[name].append(f"| `{name}` | every process | {default} | {_moved(meaning, DOCS)} |")
    for readme in sorted(path.relative_to(ROOT) for path in ROOT.glob("services/*/README.md")):
        for name, default, meaning in _table(readme, "## Settings"):
            service = f"[{readme.parent.name}](../{readme}#settings)"
            found[name].append(f"| `{name}` | {service} | {default} | {_moved(meaning, readme.parent)} |")
    rows = "\n".join(row for _, rows in sorted(found.items()) for row in rows)
    return (
        f"# Settings\n\n{NOTE}\n{_INTRODUCTION}\n\n| variable | of | default | meaning |\n|---|---|---|---|\n{rows}\n"
    )


def _table(document: Path, heading: str) -> list[tuple[str, str, str]]:
    section = (ROOT / document).read_text("utf-8").partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return _ROW.findall(section)


def _moved(text: str, folder: Path) -> str:
    """A text of a document in `folder`, with its links as they are from `docs`."""

    def link(found: re.Match[str]) -> str:
        target = (ROOT / folder / found[1]).resolve().relative_to(ROOT)
        path = target.relative_to(DOCS) if target.is_relative_to(DOCS) else ".." / target
        return f"]({path}{found[2] or ''})"

    return _LINK.sub(link, text)
