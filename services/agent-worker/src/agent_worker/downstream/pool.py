"""The downstream servers of a team, one client per address and credential however many agents name it."""

import asyncio

from agent_worker.downstream.server import DownstreamServer
from pallas_teams.model import ServerConfig


class DownstreamPool:
    """Hands out the pooled server of a configuration; connecting begins with its first use, for stdio at once."""

    def __init__(self) -> None:
        self._servers: dict[str, DownstreamServer] = {}

    def server(self, name: str, config: ServerConfig) -> DownstreamServer:
        """Return the server that `config` means. `name` is what it is called in logs."""
        key = config.key()
        found = self._servers.get(key)
        if found is None:
            found = self._servers[key] = DownstreamServer(config, name)
        if config.transport == "stdio":
            # Health of a stdio server is what its worker reports, so it has to be tried before anybody calls it.
            found.start()
        return found

    def stdio_health(self) -> dict[str, str | None]:
        """Say of each stdio server's key what is wrong with it, or None."""
        return {key: server.error for key, server in self._servers.items() if server.config.transport == "stdio"}

    async def close(self) -> None:
        """End all connections and child processes."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))
        self._servers.clear()
