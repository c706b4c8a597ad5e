"""Starts the registry: `python -m registry`."""

from pallas_runtime.importing import importing

with importing():
    from pallas_runtime.run import run
    from registry.app import build
    from registry.settings import RegistrySettings


def main() -> None:
    """Run until SIGTERM."""
    run("registry", RegistrySettings, build)


if __name__ == "__main__":
    main()
