"""Starts the service: `python -m team_lifecycle`."""

from pallas_runtime.importing import importing

with importing():
    from pallas_runtime.run import run
    from team_lifecycle.app import build
    from team_lifecycle.settings import TeamLifecycleSettings


def main() -> None:
    """Run until SIGTERM."""
    run("team-lifecycle", TeamLifecycleSettings, build)


if __name__ == "__main__":
    main()
