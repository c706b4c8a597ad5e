"""Start the fleet service."""

from pallas_runtime.importing import importing

with importing():
    from fleet.app import build
    from fleet.settings import FleetSettings
    from pallas_runtime.run import run


def main() -> None:
    """Run until a signal."""
    run("fleet", FleetSettings, build)


if __name__ == "__main__":
    main()
