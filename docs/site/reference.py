"""Generates the pages of the reference that no package generates: settings, and the contracts with other systems.

Run `python -m docs.site.reference` in the repository after a change of a setting or of `tests/requirements.py`.
"""

from pathlib import Path

from docs.site.paths import ROOT
from docs.site.settings import PAGE, settings
from docs.site.upstream import upstream


def files() -> dict[Path, str]:
    """The pages, by path in the repository."""
    return {PAGE: settings(), **upstream()}


def stale(root: Path = ROOT) -> list[Path]:
    """The pages that differ from what would be generated."""
    return [path for path, text in files().items() if not _is(root / path, text)]


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


def main() -> None:
    """Write stale pages."""
    for path in stale():
        (ROOT / path).write_text(files()[path], "utf-8")
        print(path)


if __name__ == "__main__":
    main()
