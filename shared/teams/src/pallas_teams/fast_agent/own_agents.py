"""Which servers of a fast-agent folder are agents of the folder itself."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from pallas_teams.fast_agent.kinds import FAST_AGENT
from pallas_teams.model import AgentConfig, TeamFolder

_HERE = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443}


def agent_at(folder: TeamFolder, url: str, gateways: Iterable[str]) -> AgentConfig | None:
    """The agent of kind fast-agent at an address: its own port at the folder's host or here, or its path at a gateway.

    `gateways` are the base URLs of the installation's gateways. The same path at any other host is another
    installation.
    """
    try:
        place = _place(url)
        bases = [_place(base) for base in gateways]
    except ValueError:
        return None
    for agent in folder.agents.values():
        on_port = agent.port is not None and place[2] == agent.port and place[1] in (*_HERE, folder.host)
        path = f"/teams/{folder.name}/mcp/{agent.name}"
        if agent.kind == FAST_AGENT and (on_port or place in ((*base[:3], base[3] + path) for base in bases)):
            return agent
    return None


def _place(url: str) -> tuple[str, str | None, int | None, str]:
    """Scheme, host, port and path.

    Raises:
        ValueError: it is no address.
    """
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme), parts.path.rstrip("/")
