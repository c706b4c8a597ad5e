"""Builds the documentation as a site: `make docs`, then open `.tools/docs/site/docs/index.html`.

The pages are all Markdown files of the repository, at their own paths, so a link works here as it does in a checkout. A
link to a file that is no page leads to a copy of the file; one to a folder is left as text. This runs in an environment
of its own, and imports nothing of Pallas.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / ".tools" / "docs" / "pages"
CONFIG = Path(__file__).with_name("mkdocs.yml")

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_NEEDS = re.compile(r'^( *```\w+) needs="([^"]+)"$', re.MULTILINE)
"""What a block of commands needs, which its title says on the site."""
_SHOWN = re.compile(r"(?:\]\(|src=\"|srcset=\")(?!https?:|mailto:|#)([^)#\"\s]+)")


def collect() -> None:
    """Copy the pages, and whatever they show or link to, into a new folder."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for page in _markdown():
        text = page.read_text("utf-8")
        for linked in {(page.parent / target).resolve() for target in _SHOWN.findall(text)}:
            if linked.is_file() and linked.suffix != ".md":
                shutil.copyfile(linked, _copy_of(linked))
        titled = _NEEDS.sub(r'\1 title="needs \2"', text)
        _copy_of(page).write_text(_LINK.sub(partial(_without_folders, page.parent), titled), "utf-8")


def _markdown() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name]


def _copy_of(path: Path) -> Path:
    copy = PAGES / path.relative_to(ROOT)
    copy.parent.mkdir(parents=True, exist_ok=True)
    return copy


def _without_folders(folder: Path, link: re.Match[str]) -> str:
    return link[1] if (folder / link[2]).is_dir() else link[0]


def main() -> int:
    """Build the site. The exit code is not 0 if a link or an anchor leads nowhere."""
    collect()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(CONFIG)]
    return subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
