"""The downstream servers of a team: one client per address and credential."""

import asyncio

from agent_worker.downstream.server import DownstreamServer
from pallas_teams.model import ServerConfig


class DownstreamPool:
    """Returns pooled servers. They connect on first use, stdio servers at once."""

    def __init__(self) -> None:
        self._servers: dict[str, DownstreamServer] = {}

    def server(self, name: str, config: ServerConfig) -> DownstreamServer:
        """Return the server of `config`. `name` is its name in logs."""
        key = config.key()
        found = self._servers.get(key)
        if found is None:
            found = self._servers[key] = DownstreamServer(config, name)
        if config.transport == "stdio":
            # The worker reports the health of stdio servers, so it connects before the first call.
            found.start()
        return found

    def stdio_health(self) -> dict[str, str | None]:
        """What is wrong with each stdio server, by its key; None when it is connected."""
        return {key: server.error for key, server in self._servers.items() if server.config.transport == "stdio"}

    async def close(self) -> None:
        """Close all connections and end all child processes."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))
        self._servers.clear()
