"""Start the pipelines service."""

from pallas_runtime.importing import importing

with importing():
    from pallas_runtime.run import run
    from pipelines.app import build
    from pipelines.settings import PipelinesSettings


def main() -> None:
    """Run until a signal."""
    run("pipelines", PipelinesSettings, build)


if __name__ == "__main__":
    main()
