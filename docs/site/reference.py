"""Generates what no package generates of the reference: settings, the contracts with other systems, and tables in the
pages about errors, HTTP endpoints, `/rpc` and the team folder.

Run `python -m docs.site.reference` in the repository after a change of a setting, a route, an error, a field of a team
folder or `tests/requirements.py`.
"""

from pathlib import Path

from docs.site import endpoints, errors, rpc, settings, team_folder
from docs.site.paths import ROOT
from docs.site.upstream import upstream


def files() -> dict[Path, str]:
    """The pages, by path in the repository."""
    return {
        settings.PAGE: settings.settings(),
        errors.PAGE: errors.errors(),
        endpoints.PAGE: endpoints.endpoints(),
        rpc.PAGE: rpc.rpc(),
        team_folder.PAGE: team_folder.team_folder(),
        **upstream(),
    }


def stale(root: Path = ROOT) -> list[Path]:
    """The pages that differ from what would be generated."""
    return [path for path, text in files().items() if not _is(root / path, text)]


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


def main() -> None:
    """Write stale pages."""
    for path, text in files().items():
        if not _is(ROOT / path, text):
            (ROOT / path).write_text(text, "utf-8")
            print(path)


if __name__ == "__main__":
    main()
