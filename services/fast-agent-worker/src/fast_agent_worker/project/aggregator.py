"""An aggregator of fast-agent's own that all instances of an agent share: it has the tools of its servers."""

from typing import Any, Self

from fast_agent.mcp.mcp_aggregator import MCPAggregator, MCPAttachOptions
from mcp_types import ListToolsResult, Tool

from pallas_mcp_calls.sessions import MOST_TOOLS


class SharedAggregator(MCPAggregator):
    """Opened and closed by its pool only, not by the instances that use it.

    An instance that is disposed says that it is not initialized. Then the next one would open it again, with new
    connections in place of those that other turns use.
    """

    _opened = False
    _listed: tuple[Any, str] = (None, "")
    wanted: tuple[str, ...] = ()

    async def __aenter__(self) -> Self:
        """Open it once."""
        if not self._opened:
            await super().__aenter__()
        return self

    async def load_servers(self, *, force_connect: bool = False) -> None:
        """Load them once."""
        if not self._opened:
            await super().load_servers(force_connect=force_connect)
        self._opened = self.initialized = True

    async def list_tools(self) -> ListToolsResult:
        """All tools in the order of the agent's servers, as objects of the caller's own.

        A model is shown them with each call. Reading them from JSON takes a fraction of the time of copying them.
        """
        if not self.initialized or self._listed[0] != self._known():
            listed = await self._sorted()
            self._listed = self._known(), listed.model_dump_json(by_alias=True, exclude_unset=True)
        return ListToolsResult.model_validate_json(self._listed[1])

    def _known(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a list of tools is made of."""
        return dict(self._namespaced_tool_map), dict(self._app_integration_configs)

    async def _sorted(self) -> ListToolsResult:
        """Those of a server whose list changes would move to the end."""
        listed = await super().list_tools()
        servers = {name: it.server_name for name, it in self._namespaced_tool_map.items()}
        place = {name: number for number, name in enumerate(self.wanted)}
        tools = sorted(listed.tools, key=lambda tool: place.get(servers.get(tool.name, ""), len(place)))
        return ListToolsResult(tools=tools)

    async def _fetch_server_tools(self, server_name: str, **options: Any) -> list[Tool]:
        """The first tools of a server that lists very many: a model is shown all of them with each call."""
        return (await super()._fetch_server_tools(server_name, **options))[:MOST_TOOLS]

    async def close(self) -> None:
        """Do nothing: an instance is disposed, the connections stay."""

    async def end(self) -> None:
        """Close the connections."""
        await super().close()

    async def connect(self, name: str, seconds: float) -> None:
        """Connect a server, or connect it again, and list its tools. The handshake may take that many seconds.

        Raises:
            Exception: of many kinds; each means that it is away, and its tools are left out.
        """
        options = MCPAttachOptions(startup_timeout_seconds=seconds, force_reconnect=True)
        await self.attach_server(server_name=name, options=options)

    def has_lost(self, name: str) -> bool:
        """Whether the process of a connected server has ended. fast-agent itself connects one over HTTP again."""
        running: Any = getattr(self._persistent_connection_manager, "running_servers", {}).get(name)
        if running is None or not running.is_initialized() or running.server_config.transport != "stdio":
            return False
        try:
            return not running.is_healthy() or running.client.session._dispatcher._closed
        except RuntimeError:  # its client is being closed
            return True
