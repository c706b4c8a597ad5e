"""Which kind an agent is of. Folders that were written for fast-agent do not say it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pallas_teams.model import AgentConfig, TeamFolder
from pallas_teams.shape import Branch

if TYPE_CHECKING:
    from pallas_teams.schema import AgentSection

FAST_AGENT = "fast-agent"

type Kind = Literal["llm", "function", "fast-agent"]


def kind_of_section(section: "AgentSection") -> Kind:
    """The kind of a checked agent: the given one, else fast-agent for one that is made by a module or a card."""
    if section.kind is not None:
        return section.kind
    made = section.module or section.card
    instructed = section.instruction is not None or section.instruction_file is not None
    return FAST_AGENT if made and not instructed else "llm"


def kind_of(agent: Branch) -> str:
    """The same of an agent that is not checked yet."""
    given = agent.text("kind")
    if given is not None:
        return str(given.value)
    made = agent.has("module") or agent.has("card")
    return FAST_AGENT if made and not (agent.has("instruction") or agent.has("instruction_file")) else "llm"


def kinds_in(team: Branch) -> set[str]:
    """The kinds of all agents of a team."""
    agents = team.branch("agents").entries.values()
    return {kind_of(entry.node) for entry in agents if isinstance(entry.node, Branch)}


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
