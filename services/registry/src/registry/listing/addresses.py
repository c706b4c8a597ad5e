"""The URL of an agent: its dedicated port where a gateway has bound it, else its path at the public URL."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from pallas_contracts.agents import AgentDefinition, GatewayPresence

_EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - recognised, not bound


def bound_ports(gateways: Mapping[str, GatewayPresence]) -> dict[str, tuple[str, int]]:
    """Map `{team}.{agent}` to the host and port of the first gateway, by name, that has bound its dedicated port."""
    bound: dict[str, tuple[str, int]] = {}
    for name in sorted(gateways):
        for agent, port in gateways[name].ports.items():
            bound.setdefault(agent, (gateways[name].host, port))
    return bound


def agent_url(definition: AgentDefinition, bound: Mapping[str, tuple[str, int]], public_url: str) -> str:
    """The agent's MCP endpoint.

    A gateway that listens on all addresses is reached at the public host name.
    """
    found = bound.get(f"{definition.team}.{definition.agent}")
    if found is None:
        return f"{public_url}/teams/{definition.team}/mcp/{definition.agent}"
    host, port = found
    if host in _EVERY_ADDRESS:
        host = urlsplit(public_url).hostname or host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"
