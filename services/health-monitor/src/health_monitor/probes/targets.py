"""What can be probed."""

from dataclasses import dataclass
from typing import Literal

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
