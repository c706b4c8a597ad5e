"""Host the team folders this worker was given, and follow their changes.

A changed folder is loaded beside the old one: turns that run keep the agents they started with, new ones get the new.
A folder that has become bad changes nothing; what it said before goes on.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from agent_worker.teams.hosted_team import HostedTeam
from pallas_bus.transport import ask
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.puller import TurnPuller
from pallas_bus.turnlog.queue import ensure_consumer
from pallas_contracts.agents import AgentRead, AgentReadAnswer
from pallas_contracts.catalog import READ_AGENT
from pallas_contracts.errors import NotFound, PallasError, Unavailable
from pallas_executor.agent_runtime import HostedAgent
from pallas_executor.publish_definitions import publish_definitions
from pallas_runtime.metrics import AgentSeries
from pallas_teams import FolderChanges, TeamFolder, load_teams

log = logging.getLogger(__name__)

WATCH_INTERVAL = 0.5


@dataclass
class Teams:
    """What is hosted right now: agents by `{team}.{agent}`. `series` are those of their metrics."""

    series: AgentSeries
    agents: dict[str, HostedAgent] = field(default_factory=dict[str, HostedAgent])
    hosted: dict[str, HostedTeam] = field(default_factory=dict[str, HostedTeam])

    @property
    def failed(self) -> dict[str, str]:
        """Agents that could not be started, with the reason."""
        return {f"{team}.{agent}": why for team, hosted in self.hosted.items() for agent, why in hosted.failed.items()}

    def stdio(self) -> dict[str, str | None]:
        """The health of stdio dependencies by their key."""
        return {key: why for hosted in self.hosted.values() for key, why in hosted.shared.stdio_health().items()}

    async def read(self, question: AgentRead) -> AgentReadAnswer:
        """Answer a read of a hosted agent.

        Raises:
            NotFound: the agent is not hosted here, or has no such thing.
        """
        agent = self.agents.get(f"{question.team}.{question.agent}")
        if agent is None:
            raise NotFound(f"agent {question.agent!r} is not hosted here")
        return AgentReadAnswer(result=await agent.runtime.read(question))


@dataclass
class HostTeams:
    """Keeps `teams` as the folders say, with the catalogue and the puller following.

    `hear(team)` lets the claims of a team's turns be heard from then on.
    """

    bus: Bus
    hear: Callable[[str], Awaitable[None]]
    puller: TurnPuller
    folders: tuple[Path, ...]
    teams: Teams
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    trace_content: bool = False
    _changes: FolderChanges = field(init=False)
    _refused: set[Path] = field(default_factory=set[Path])
    _heard: set[str] = field(default_factory=set[str])
    _answered: set[str] = field(default_factory=set[str])
    _service: ask.Answering | None = None

    def __post_init__(self) -> None:
        self._changes = FolderChanges(self.folders)

    async def host_teams(self) -> None:
        """Load every folder and start to take its agents' turns.

        Raises:
            Rejected: a folder is bad.
            Unavailable: the broker does not answer.
        """
        self._service = await ask.answering(self.bus, description="executes turns of agents")
        with ExitStack() as reading:
            for folder in self.folders:
                reading.enter_context(self._changes.reading(folder))
            for loaded in load_teams(self.folders, self.environ):
                await self._host(loaded, self._take_over)

    async def follow_changes(self) -> None:
        """Load a folder again whenever a file in it has changed, for ever.

        Folders that were refused are tried again with every change: the fault may have been another's.
        """
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            if changed := self._changes.unread():
                for folder in dict.fromkeys((*changed, *self._refused)):
                    await self._reload(folder)

    async def _reload(self, folder: Path) -> None:
        self._refused.discard(folder)
        try:
            with self._changes.reading(folder):
                loaded = dict(zip(self.folders, load_teams(self.folders, self.environ), strict=True))
                await self._host(loaded[folder], self._take_over_in_the_end)
        except Unavailable as error:
            log.warning(
                "the changed folder cannot be taken yet", extra={"folder": folder.name, "reason": error.message}
            )
            self._changes.forget(folder)
        except PallasError as error:
            self._refused.add(folder)
            log.error("the changed folder is not taken", extra={"folder": folder.name, "reason": error.message})

    async def _host(self, loaded: TeamFolder, take_over: Callable[[HostedTeam], Awaitable[None]]) -> None:
        """Make the team and have it `take_over`; whatever comes of that, what is not hosted then gets closed."""
        from agent_worker.teams.make_agents import host_team

        fresh = await host_team(loaded, self.environ, trace_content=self.trace_content)
        before, agents = self.teams.hosted.get(fresh.team), dict(self.teams.agents)
        try:
            await take_over(fresh)
        finally:
            if self.teams.hosted.get(fresh.team) is not fresh:
                self.teams.agents |= {key: hosted for key, hosted in agents.items() if key in self.teams.agents}
                self.bus.spawn(_close_when_idle(fresh))
            elif before is not None:
                self.bus.spawn(_close_when_idle(before))
        log.info("team hosted", extra={"team": fresh.team, "agents": len(fresh.agents), "failed": len(fresh.failed)})

    async def _take_over_in_the_end(self, fresh: HostedTeam) -> None:
        """While the broker is away, what was made waits for it: making it again would start everything once more."""
        told = False
        while True:
            try:
                return await self._take_over(fresh)
            except Unavailable as error:
                if not told:
                    told = True
                    reason = {"team": fresh.team, "reason": error.message}
                    log.warning("the changed folder cannot be taken yet", extra=reason)
                await asyncio.sleep(WATCH_INTERVAL)

    async def _take_over(self, fresh: HostedTeam) -> None:
        definitions = [hosted.definition for hosted in fresh.agents]
        # Whoever hears of a change must find it made.
        changed = {f"{fresh.team}.{hosted.definition.agent}": hosted for hosted in fresh.agents}
        self.teams.agents |= {key: hosted for key, hosted in changed.items() if key in self.teams.agents}
        await publish_definitions(self.bus, fresh.team, fresh.version, definitions, unstarted=fresh.unstarted)
        if fresh.team not in self._heard:
            await self.hear(fresh.team)
            self._heard.add(fresh.team)
        self.teams.hosted[fresh.team] = fresh
        wanted = {f"{fresh.team}.{hosted.definition.agent}": hosted for hosted in fresh.agents}
        for key in [key for key in self.teams.agents if key.startswith(f"{fresh.team}.") and key not in wanted]:
            await self.puller.remove(key)
            del self.teams.agents[key]
            self.teams.series.changed(key, None)
        self.teams.agents |= wanted
        for key, hosted in wanted.items():
            self.teams.series.changed(key, hosted)
            limits = hosted.definition.limits
            await ensure_consumer(self.bus, fresh.team, hosted.definition.agent, max_concurrency=limits.max_concurrency)
            if key not in self.puller:
                await self.puller.add(key, fresh.team, hosted.definition.agent)
        if fresh.team not in self._answered and self._service is not None:
            self._answered.add(fresh.team)
            await ask.answer(self.bus, self._service, READ_AGENT, self.teams.read, team=fresh.team)


async def _close_when_idle(before: HostedTeam) -> None:
    """Close a replaced team's connections once the longest turn it may still run is over, or the worker ends."""
    try:
        await asyncio.sleep(max((hosted.definition.limits.turn_timeout for hosted in before.agents), default=0.0))
    finally:
        await before.shared.close()
