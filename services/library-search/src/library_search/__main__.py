"""Starts the service: `python -m library_search`."""

from pallas_runtime.importing import importing

with importing():
    from library_search.app import build
    from library_search.settings import LibrarySearchSettings
    from pallas_runtime.run import run


def main() -> None:
    """Run until SIGTERM."""
    run("library-search", LibrarySearchSettings, build)


if __name__ == "__main__":
    main()
