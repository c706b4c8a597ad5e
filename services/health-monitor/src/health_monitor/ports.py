"""The interfaces through which the monitor uses other systems."""

from dataclasses import dataclass
from typing import Literal, Protocol

from pallas_contracts.health import AgentHealth, ProbeResult
from pallas_teams import HttpServer, ProviderConfig


@dataclass(frozen=True, slots=True)
class McpTarget:
    """A downstream MCP server to probe."""

    key: str
    server: HttpServer

    @property
    def name(self) -> str:
        """What results and metrics call it."""
        return self.server.name

    @property
    def kind(self) -> Literal["mcp"]:
        """The kind of its results."""
        return "mcp"


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """A model at a provider to probe."""

    key: str
    provider: ProviderConfig
    model: str

    @property
    def name(self) -> str:
        """What results and metrics call it."""
        return f"{self.provider.name}.{self.model}"

    @property
    def kind(self) -> Literal["model"]:
        """The kind of its results."""
        return "model"


type Target = McpTarget | ModelTarget


class Addresses(Protocol):
    """The addresses and credentials of dependencies, by the keys in the agents' definitions."""

    async def reload(self) -> None:
        """Read what has changed. Never fails: what cannot be read any more stays as it was."""
        ...

    def server(self, key: str) -> HttpServer | None:
        """The server, or None when it is not known here."""
        ...

    def provider(self, key: str) -> ProviderConfig | None:
        """The provider, or None when it is not known here."""
        ...


class Prober(Protocol):
    """Finds out whether a dependency answers."""

    async def probe(self, target: Target) -> str | None:
        """Return None when it answers, else a short reason without address or credential. Bounded in time."""
        ...


class Queue(Protocol):
    """The turns that wait."""

    async def waiting_since(self, team: str, agent: str) -> float | None:
        """Since when turns of the agent are known to wait, in seconds since the epoch; None when there are none."""
        ...


class Publications(Protocol):
    """Where results go. Never fails: what could not be written is written with the next check."""

    async def health(self, health: AgentHealth) -> None:
        """Publish an agent's health."""
        ...

    async def probe(self, result: ProbeResult) -> None:
        """Publish the result of a probe."""
        ...

    async def keep(self, agents: set[str], probes: set[str]) -> None:
        """Remove everything but the health of `agents` (`{team}.{agent}`) and the results of `probes` (keys)."""
        ...
