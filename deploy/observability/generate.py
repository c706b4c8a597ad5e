"""Generates `docs/metrics.md` and the dashboard from the metrics of the services.

Run `python -m deploy.observability.generate` in the repository after a change of a metric. `--check` writes nothing and
exits with code 1 if a file is stale.
"""

import sys
from pathlib import Path

from deploy.observability.dashboard import PATH, dashboard
from deploy.observability.document import document
from deploy.observability.exposed import ROOT


def files() -> dict[Path, str]:
    """The generated files, by path in the repository."""
    return {Path("docs/metrics.md"): document(), Path(PATH): dashboard()}


def stale(root: Path = ROOT) -> list[Path]:
    """The files that differ from what would be generated."""
    return [path for path, text in files().items() if not _is(root / path, text)]


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


def main(arguments: list[str]) -> int:
    """Write stale files, or with `--check` only list them."""
    wrong = stale()
    if "--check" in arguments:
        print("\n".join(f"stale: {path}" for path in wrong) or "nothing is stale")
        return 1 if wrong else 0
    for path in wrong:
        (ROOT / path).write_text(files()[path], "utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
