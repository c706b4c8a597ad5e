"""Start a fast-agent-worker. At the broker it is an agent-worker: it has the same rights."""

from pallas_runtime.importing import importing

with importing():
    from fast_agent_worker.app import build
    from fast_agent_worker.settings import FastAgentSettings
    from pallas_runtime.run import run


def main() -> None:
    """Run until a signal."""
    run("agent-worker", FastAgentSettings, build)


if __name__ == "__main__":
    main()
