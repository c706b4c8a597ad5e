"""Generates `docs/metrics.md` and the dashboard from the metrics of the services.

Run `python -m deploy.observability.generate` in the repository after a change of a metric. `--check` writes nothing and
exits with code 1 if a file is stale. `--runbook URL` puts the address of your copy of the runbook into all alerts.
"""

import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from deploy.observability.dashboard import PATH, dashboard
from deploy.observability.document import document
from deploy.observability.exposed import ROOT

ALERTS = ("rules.yml", "rules_test.yml", "slo.yml", "slo_test.yml")
_RUNBOOK = re.compile(r"(?<=runbook_url: )\S+(?=#)")


def files() -> dict[Path, str]:
    """The generated files, by path in the repository."""
    return {Path("docs/metrics.md"): document(), Path(PATH): dashboard()}


def stale(root: Path = ROOT) -> list[Path]:
    """The files that differ from what would be generated."""
    return [path for path, text in files().items() if not _is(root / path, text)]


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


def lead_to(runbook: str, folder: Path) -> None:
    """Let the alerts in the files of `folder` lead to the runbook at this address."""
    for path in (folder / name for name in ALERTS):
        path.write_text(_RUNBOOK.sub(lambda _: runbook, path.read_text("utf-8")), "utf-8")


def main(arguments: list[str]) -> int:
    """Write stale files, or with `--check` only list them."""
    if arguments[:1] == ["--runbook"]:
        if len(arguments) != 2 or urlsplit(arguments[1]).scheme not in ("http", "https"):
            print("--runbook needs an address that begins with http:// or https://", file=sys.stderr)
            return 2
        lead_to(arguments[1], Path(__file__).parent)
        return 0
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
