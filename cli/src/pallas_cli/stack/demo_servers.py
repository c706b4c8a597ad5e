"""Addresses of the demo team's downstream servers, which its configuration reads from the environment."""

from dataclasses import dataclass

from pallas_cli.stack.ports import LOOPBACK, Ports


@dataclass(frozen=True, slots=True)
class DemoServers:
    """The ports of the demo tools and of library-search, whether or not it is started."""

    tools_port: int
    library_port: int

    @classmethod
    def at(cls, ports: Ports) -> "DemoServers":
        """The servers of a stack."""
        return cls(ports.demo_tools, ports.library_search)

    @property
    def tools_url(self) -> str:
        """The MCP endpoint of the demo tools."""
        return f"http://{LOOPBACK}:{self.tools_port}/mcp"

    def environ(self) -> dict[str, str]:
        """The variables that the team's configuration reads."""
        return {
            "PALLAS_DEMO_TOOLS_URL": self.tools_url,
            "PALLAS_DEMO_LIBRARY_URL": f"http://{LOOPBACK}:{self.library_port}/mcp",
        }
