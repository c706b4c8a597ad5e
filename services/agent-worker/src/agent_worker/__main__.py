"""Start an agent-worker."""

from pallas_runtime.importing import importing

with importing():
    from agent_worker.app import build
    from agent_worker.settings import WorkerSettings
    from pallas_runtime.run import run


def main() -> None:
    """Run until a signal."""
    run("agent-worker", WorkerSettings, build)


if __name__ == "__main__":
    main()
