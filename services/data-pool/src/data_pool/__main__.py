"""Start a data-pool."""

from pallas_runtime.importing import importing

with importing():
    from data_pool.app import build
    from data_pool.settings import PoolSettings
    from pallas_runtime.run import run


def main() -> None:
    """Run until a signal."""
    run("data-pool", PoolSettings, build, websockets=True)


if __name__ == "__main__":
    main()
