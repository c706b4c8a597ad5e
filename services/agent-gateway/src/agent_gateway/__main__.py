"""Start an agent-gateway."""

from pallas_runtime.importing import importing

with importing():
    from agent_gateway.app import build
    from agent_gateway.settings import GatewaySettings
    from pallas_runtime.run import run


def main() -> None:
    """Run until a signal."""
    run("agent-gateway", GatewaySettings, build)


if __name__ == "__main__":
    main()
