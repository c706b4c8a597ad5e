"""Starts the service: `python -m workspaces`."""

from pallas_runtime.run import run
from workspaces.app import build
from workspaces.settings import WorkspacesSettings


def main() -> None:
    """Run until SIGTERM."""
    run("workspaces", WorkspacesSettings, build)


if __name__ == "__main__":
    main()
