"""Host the configured team folders, and reload folders that change.

Running turns keep the agents they started with; new turns get the reloaded ones. A folder that has faults is refused;
its team stays as it was, and so do all others.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pallas_bus.connection import Bus
from pallas_bus.errors import retry_while_unavailable
from pallas_contracts.agents import AgentDefinition, Trouble
from pallas_contracts.bounds import line
from pallas_contracts.errors import PallasError
from pallas_teams import FolderChanges, TeamFaults, TeamFolder, load_each
from pallas_turns.definitions import publish_definitions, publish_lost
from pallas_turns.executor import Executor
from pallas_turns.runtime import HostedAgent

log = logging.getLogger(__name__)


class TeamRuntime(Protocol):
    """What all agents of a team share: pooled connections and model clients."""

    async def close(self) -> None:
        """Close everything. No turn may run."""
        ...

    def stdio_health(self) -> dict[str, str | None]:
        """What is wrong with each stdio dependency, by its key; None when it answers."""
        ...

    def lacks(self) -> dict[str, str]:
        """What agents lack now of what they share, such as tools of a server."""
        ...


@dataclass(frozen=True, slots=True)
class HostedTeam:
    """The agents of one team folder. `failed` maps agents that could not be started to the reason.

    `unstarted` are their definitions as far as known: without the tools of a module that cannot be loaded. `elsewhere`
    are agents of the same kinds that other processes host.
    """

    team: str
    version: str
    agents: Sequence[HostedAgent]
    shared: TeamRuntime
    failed: dict[str, str] = field(default_factory=dict[str, str])
    unstarted: Sequence[AgentDefinition] = ()
    elsewhere: Collection[str] = ()


WATCH_INTERVAL = 0.5


@dataclass
class HostTeams:
    """Keeps the agents of `executor`, and their published definitions, in step with the folders.

    `make` makes the agents of `kinds`; those of other kinds have workers of their own.
    """

    executor: Executor
    folders: tuple[Path, ...]
    make: Callable[[TeamFolder], Awaitable[HostedTeam]]
    kinds: frozenset[str]
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    beside: Sequence[Path] = ()
    hosted: dict[str, HostedTeam] = field(default_factory=dict[str, HostedTeam])
    _changes: FolderChanges = field(init=False)
    _refused: set[Path] = field(default_factory=set[Path])
    _publishing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._changes = FolderChanges(self.folders)

    @property
    def bus(self) -> Bus:
        """The executor's connection."""
        return self.executor.bus

    def failed(self) -> dict[str, str]:
        """Agents that could not be started, with the reason."""
        return {f"{team}.{agent}": why for team, hosted in self.hosted.items() for agent, why in hosted.failed.items()}

    def troubles(self) -> dict[str, Trouble]:
        """Agents that run and lack something."""
        found = dict[str, Trouble]()
        for team, hosted in self.hosted.items():
            for agent, why in hosted.shared.lacks().items():
                found[f"{team}.{agent}"] = Trouble(status="degraded", reason=line(why))
        return found

    def stdio(self) -> dict[str, str | None]:
        """What is wrong with each stdio dependency, by its key; None when it answers."""
        return {key: why for hosted in self.hosted.values() for key, why in hosted.shared.stdio_health().items()}

    def files_read(self) -> Collection[Path]:
        """The files of the folders that were read so far."""
        return [file for folder in self.folders for file in self._changes.files_read(folder)]

    async def close(self) -> None:
        """Close what the teams share. No turn may run."""
        for hosted in self.hosted.values():
            await hosted.shared.close()

    async def host_teams(self) -> None:
        """Load every folder and start to take its agents' turns. Those that are bad are left out until they change.

        Raises:
            Rejected: every folder is bad.
        """
        async with self._reading(*self.folders):
            teams, refused = await self._load()
            if refused and not teams:
                raise TeamFaults(fault for faults in refused.values() for fault in faults.faults)
            for folder in self.folders:
                if folder in teams:
                    await self._try_to_host(folder, teams[folder])
                else:
                    self._refuse(folder, refused[folder])

    @asynccontextmanager
    async def _reading(self, *folders: Path) -> AsyncGenerator[None]:
        """`FolderChanges.reading`, in a thread: a folder may have many files."""
        reading = ExitStack()
        await asyncio.to_thread(lambda: [reading.enter_context(self._changes.reading(folder)) for folder in folders])
        try:
            yield
        finally:
            await asyncio.to_thread(reading.close)

    async def _load(self) -> tuple[Mapping[Path, TeamFolder], Mapping[Path, TeamFaults]]:
        return await asyncio.to_thread(load_each, self.folders, self.environ, beside=self.beside)

    async def follow_changes(self) -> None:
        """Load a folder again whenever a file in it has changed, for ever. Folders are read in a thread.

        Refused folders are loaded again with every change: the fault may have been in another folder.
        """
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            if changed := await asyncio.to_thread(self._changes.unread):
                for folder in dict.fromkeys((*changed, *self._refused)):
                    await self._reload(folder)

    async def _reload(self, folder: Path) -> None:
        self._refused.discard(folder)
        async with self._reading(folder):
            teams, refused = await self._load()
            if folder in teams:
                await self._try_to_host(folder, teams[folder])
            else:
                self._refuse(folder, refused[folder])

    async def _try_to_host(self, folder: Path, loaded: TeamFolder) -> None:
        """Host the team. Whatever fails there leaves the other teams as they are."""
        try:
            await self._host(loaded)
            if self.hosted[loaded.name].failed:
                self._changes.doubt(folder, partial=True)
        except PallasError as error:
            self._refuse(folder, error)
        except Exception:
            self._refused.add(folder)
            self._changes.doubt(folder)
            log.exception("the folder cannot be hosted", extra={"folder": folder.name})

    def _refuse(self, folder: Path, error: PallasError) -> None:
        self._refused.add(folder)
        self._changes.doubt(folder)
        log.error("the changed folder is not accepted", extra={"folder": folder.name, "reason": error.message})

    async def _host(self, loaded: TeamFolder) -> None:
        """Make the team and take it over. Afterwards, the team that is not hosted is closed."""
        for fault in loaded.left_out:
            log.error("a part of the folder is left out", extra={"team": loaded.name, "reason": str(fault)})
        for fault in loaded.warnings:
            log.warning("the folder may be meant otherwise", extra={"team": loaded.name, "reason": str(fault)})
        fresh = await self.make(loaded)
        before, agents = self.hosted.get(fresh.team), dict(self.executor.agents)
        try:
            await self._retry_take_over(fresh)
        finally:
            if self.hosted.get(fresh.team) is not fresh:
                self.executor.agents |= {key: hosted for key, hosted in agents.items() if key in self.executor.agents}
                self.bus.spawn(_close_when_idle(fresh))
            elif before is not None:
                self.bus.spawn(_close_when_idle(before))
        log.info("team hosted", extra={"team": fresh.team, "agents": len(fresh.agents), "failed": len(fresh.failed)})

    async def _retry_take_over(self, fresh: HostedTeam) -> None:
        """Retry with the team that is made already: making it again would start its servers and modules once more."""
        what, facts = "publish the team", {"team": fresh.team}
        await retry_while_unavailable(lambda: self._take_over(fresh), what, deadline=None, facts=facts)

    async def _take_over(self, fresh: HostedTeam) -> None:
        async with self._publishing:
            # Replaced before it is published: who sees the new definition must reach the new agent.
            self.executor.replace(fresh.agents)
            await self._publish(fresh)
            await self.executor.watch(fresh.team)
            self.hosted[fresh.team] = fresh
        await self.executor.host(fresh.team, fresh.agents)

    async def publish(self) -> None:
        """Publish the definitions of all hosted teams that were lost. What others have published stays.

        Raises:
            Unavailable: the catalogue cannot be written now.
        """
        async with self._publishing:
            for team in self.hosted.values():
                definitions = [hosted.definition for hosted in team.agents]
                await publish_lost(self.bus, team.team, [*definitions, *team.unstarted])

    async def _publish(self, team: HostedTeam) -> None:
        definitions = [hosted.definition for hosted in team.agents]
        await publish_definitions(
            self.bus,
            team.team,
            team.version,
            definitions,
            unstarted=team.unstarted,
            kinds=self.kinds,
            elsewhere=team.elsewhere,
        )


async def _close_when_idle(before: HostedTeam) -> None:
    """Close a replaced team's connections once the longest turn it may still run is over, or the worker ends."""
    try:
        await asyncio.sleep(max((hosted.definition.limits.turn_timeout for hosted in before.agents), default=0.0))
    finally:
        await before.shared.close()
