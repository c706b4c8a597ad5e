"""Where the demo team finds its downstream servers; its configuration takes these addresses from the environment."""

from dataclasses import dataclass

from pallas_cli.stack.ports import LOOPBACK, Ports


@dataclass(frozen=True, slots=True)
class DemoServers:
    """Their ports: that of the demo's tools, and that of the library search, whether or not it is started."""

    tools_port: int
    library_port: int

    @classmethod
    def at(cls, ports: Ports) -> "DemoServers":
        """Those of a stack."""
        return cls(ports.demo_tools, ports.library_search)

    @property
    def tools_url(self) -> str:
        """The MCP endpoint of the tools."""
        return f"http://{LOOPBACK}:{self.tools_port}/mcp"

    def environ(self) -> dict[str, str]:
        """The variables of the team's configuration."""
        return {
            "PALLAS_DEMO_TOOLS_URL": self.tools_url,
            "PALLAS_DEMO_LIBRARY_URL": f"http://{LOOPBACK}:{self.library_port}/mcp",
        }
