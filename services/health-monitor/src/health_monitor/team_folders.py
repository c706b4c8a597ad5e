"""The addresses and credentials of dependencies, from the team folders that the workers read too.

When a folder becomes invalid, its last valid state counts. A folder that was never valid has no addresses, and the
agents of its team are judged without their HTTP servers.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pallas_teams import FolderChanges, HttpServer, ProviderConfig, TeamFaults, TeamFolder, load_team

log = logging.getLogger(__name__)


@dataclass
class TeamFolders:
    """The folders at `paths`. `on_read(folder, faults)` is called after each read, with the number of faults."""

    paths: Sequence[Path]
    environ: Mapping[str, str]
    on_read: Callable[[str, int], None]
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _changes: FolderChanges = field(init=False)
    _teams: dict[Path, TeamFolder] = field(default_factory=dict[Path, TeamFolder])
    _servers: dict[str, HttpServer] = field(default_factory=dict[str, HttpServer])
    _providers: dict[str, ProviderConfig] = field(default_factory=dict[str, ProviderConfig])

    def __post_init__(self) -> None:
        self._changes = FolderChanges(self.paths)

    async def reload(self) -> None:
        """Read the folders that have changed; concurrent callers wait until that is done."""
        async with self._reading:
            await self._reload()

    async def _reload(self) -> None:
        for path in await asyncio.to_thread(self._changes.unread):
            await self._read(path)
        teams = self._teams.values()
        servers = [server for team in teams for server in team.servers.values()]
        self._servers = {server.key(): server for server in servers if isinstance(server, HttpServer)}
        self._providers = {provider.key(): provider for team in teams for provider in team.providers.values()}

    def server(self, key: str) -> HttpServer | None:
        """The server of that key, or None."""
        return self._servers.get(key)

    def provider(self, key: str) -> ProviderConfig | None:
        """The provider of that key, or None."""
        return self._providers.get(key)

    @property
    def limits(self) -> dict[str, dict[str, int | None]]:
        """The `max_concurrency` of each agent, by team."""
        return {
            team.name: {name: agent.limits.max_concurrency for name, agent in team.agents.items()}
            for team in self._teams.values()
        }

    async def _read(self, path: Path) -> None:
        try:
            self._teams[path] = await asyncio.to_thread(self._load, path)
        except TeamFaults as error:
            log.error("a team folder cannot be used", extra={"folder": str(path), "faults": error.message})
            self.on_read(path.name, len(error.faults))
        else:
            log.info("read a team folder", extra={"folder": str(path), "team": self._teams[path].name})
            self.on_read(path.name, len(self._teams[path].left_out))

    def _load(self, path: Path) -> TeamFolder:
        with self._changes.reading(path):
            return load_team(path, self.environ, beside=self.paths)
