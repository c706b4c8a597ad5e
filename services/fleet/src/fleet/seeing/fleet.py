"""The agents of the fleet: workspaces of Coder, with what each of them does now. Changes are announced."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fleet.coder.client import Coder, find_app
from fleet.coder.model import Workspace
from fleet.names import agent_name, cut, task_id
from fleet.owners import Owners
from fleet.seeing.status import AgentStatus, Terminals, fold, has_to_be_asked, why_offline
from fleet.storing.agents import Agents
from pallas_contracts.agents import Trouble
from pallas_contracts.errors import NotFound, Unavailable
from pallas_contracts.fleet import FleetAgent
from pallas_contracts.turns import Principal

SECONDS = 2.0
"""How old a list may be."""


class Snapshots:
    """The latest list. `trouble` is what was wrong with Coder when it was last asked; `on_trouble` hears of changes."""

    def __init__(self, coder: Coder, on_trouble: Callable[[], None] = lambda: None) -> None:
        self.coder = coder
        self._on_trouble = on_trouble
        self._known: tuple[Workspace, ...] = ()
        self._began = self._forgotten = float("-inf")
        self._reading: asyncio.Task[tuple[Workspace, ...]] | None = None
        self._reading_since = self._began
        self.trouble: Trouble | None = None

    async def get(self, oldest: float = SECONDS) -> tuple[Workspace, ...]:
        """The workspaces as they were at most `oldest` seconds ago.

        Raises:
            Unavailable: Coder does not answer.
        """
        since = max(time.monotonic() - oldest, self._forgotten)
        if self._began >= since:
            return self._known
        if self._reading is None or self._reading_since < since:
            self._reading_since = time.monotonic()
            self._reading = asyncio.create_task(self._read(self._reading_since))
            self._reading.add_done_callback(_heard)
        return await asyncio.shield(self._reading)

    def forget(self) -> None:
        """The next list is to be read after this."""
        self._forgotten = time.monotonic()

    async def _read(self, began: float) -> tuple[Workspace, ...]:
        try:
            found = await self.coder.workspaces()
        except Unavailable as error:
            if self._reading_since == began:
                self._reading = None
            self._found(_trouble(error))
            raise
        if began > self._began:
            self._known, self._began = found, began
        if self._reading_since == began:
            self._reading = None
        self._found(None)
        return found

    def _found(self, trouble: Trouble | None) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._on_trouble()


def _trouble(error: Unavailable) -> Trouble:
    """An error if only an operator can mend it: callers do not call an agent that is in `error`."""
    refused = error.facts.get("status") in (401, 403) or error.facts.get("reason") in ("unauthorized", "not_configured")
    return Trouble(status="error" if refused else "degraded", reason=error.message)


def _heard(reading: asyncio.Task[tuple[Workspace, ...]]) -> None:
    if not reading.cancelled():
        reading.exception()  # all that waited for it may have left


_FRESH = 0.25
"""How old, in seconds, a list may be that does not have what a caller asks for."""


@dataclass(frozen=True)
class Seen:
    """An agent as it is now. `why_offline` says it as the end of a sentence."""

    name: str
    workspace: Workspace
    entry: FleetAgent | None
    status: AgentStatus
    why_offline: str
    current_task: str | None


@dataclass
class Fleet:
    """Sees agents, for callers those that they may use.

    `apps` are the slugs of apps by which their workspaces are known, `prefix` begins their names.
    """

    snapshots: Snapshots
    terminals: Terminals
    agents: Agents
    owners: Owners
    apps: tuple[str, ...]
    prefix: str
    counted: Counter[AgentStatus] = field(default_factory=Counter["AgentStatus"])
    _entries: dict[str, tuple[str, str | None]] = field(default_factory=dict[str, tuple[str, str | None]])

    async def all(self) -> tuple[Seen, ...]:
        """All agents by name.

        Raises:
            Unavailable: Coder does not answer.
        """
        workspaces = self.agents_of(await self.snapshots.get())
        self.terminals.keep({workspace.id for workspace in workspaces})
        seen = await asyncio.gather(*map(self._see, workspaces))
        self.counted = Counter(each.status for each in seen)
        return tuple(sorted(seen, key=lambda each: each.name.lower()))

    async def of(self, caller: Principal) -> tuple[Seen, ...]:
        """The agents that a caller may use, by name.

        Raises:
            Unavailable: Coder does not answer.
        """
        return tuple(each for each in await self.all() if self.owners.may_use(caller, each.entry))

    async def find(self, name: str, caller: Principal) -> Seen:
        """The agent of a name, as a caller sees it.

        Raises:
            NotFound: there is none, or it is somebody else's.
            Unavailable: Coder does not answer.
        """
        for oldest in (SECONDS, _FRESH):
            known = {self.name_of(it).lower(): it for it in self.agents_of(await self.snapshots.get(oldest))}
            workspace = known.get(name.lower())
            if workspace is None or not (workspace.running or oldest == _FRESH):
                continue
            if not self._may_use(caller, workspace) and oldest == _FRESH:
                await self.agents.read(name)  # the copy in memory may be older
            if self._may_use(caller, workspace):
                return await self._see(workspace)
        raise NotFound(f"Agent '{cut(name)}' does not exist.", agent_name=cut(name))

    def name_of(self, workspace: Workspace) -> str:
        """The agent's name of a workspace."""
        return agent_name(workspace.name, self.prefix)

    def agents_of(self, workspaces: Iterable[Workspace]) -> list[Workspace]:
        """The workspaces that are agents. One that is being deleted is not any more."""
        return [workspace for workspace in workspaces if self._is_agent(workspace)]

    def forget(self) -> None:
        """A workspace was made or deleted: the next call reads again."""
        self.snapshots.forget()

    def changed(self, key: str, entry: FleetAgent | None) -> None:
        """The entry of an agent has changed, perhaps by another replica: what was seen before may be wrong."""
        now = (entry.workspace_id, entry.task.turn_id if entry.task is not None else None) if entry else None
        before = self._entries.pop(key, None)
        if now is not None:
            self._entries[key] = now
        if now == before:
            return
        if (now and now[0]) != (before and before[0]):
            self.forget()
        for workspace_id, _ in filter(None, (now, before)):
            self.terminals.forget(workspace_id)

    def _may_use(self, caller: Principal, workspace: Workspace) -> bool:
        return self.owners.may_use(caller, self.agents.of(self.name_of(workspace), workspace.id))

    def _is_agent(self, workspace: Workspace) -> bool:
        name = self.name_of(workspace)
        if not name or not workspace.name.startswith(self.prefix) or is_going(workspace):
            return False
        known = self.agents.of(name, workspace.id) is not None
        return known or bool(workspace.has_ai_task) or find_app(workspace, self.apps) is not None

    async def _see(self, workspace: Workspace) -> Seen:
        name = self.name_of(workspace)
        asked = has_to_be_asked(workspace, self.agents.of(name, workspace.id))
        working = await self.terminals.working(workspace) if asked else None
        entry = self.agents.of(name, workspace.id)
        status, current = fold(workspace, entry, working)
        return Seen(name, workspace, entry, status, why_offline(workspace) or "", current)


def is_going(workspace: Workspace) -> bool:
    """Whether a workspace is being deleted, and the deletion has not failed."""
    return workspace.transition == "delete" and workspace.job_status not in ("failed", "canceled")


AGENTS_URI = "fleet://agents"
AGENT_URI = AGENTS_URI + "/{name}"
TASK_URI = "fleet://tasks/{id}"


@dataclass
class Announcing:
    """Calls `announce` with the URI of each resource that has changed. Every replica does it, each as it sees it."""

    announce: Callable[[str], object]
    _entries: dict[str, FleetAgent] = field(default_factory=dict[str, FleetAgent])
    _seen: dict[str, tuple[str, str, str | None]] | None = None

    def changed(self, key: str, entry: FleetAgent | None) -> None:
        """The entry of an agent has changed: perhaps its task has begun or ended."""
        before = self._entries.pop(key, None)
        if entry is not None:
            self._entries[key] = entry
        known = [it for it in (before, entry) if it is not None]
        self._agents({it.name for it in known})
        for turn_id in {it.task.turn_id for it in known if it.task is not None}:
            self.task(turn_id)

    def task(self, turn_id: str) -> None:
        """The agent of a task has written something, or the task has begun or ended."""
        self.announce(TASK_URI.format(id=task_id(turn_id)))

    def seen(self, agents: tuple[Seen, ...]) -> None:
        """This is how agents are now: what nobody here has caused shows in the difference only."""
        before, now = self._seen, {it.name: (it.workspace.id, it.status, it.current_task) for it in agents}
        self._seen = now
        if before is not None:
            self._agents({name for name in before.keys() | now.keys() if before.get(name) != now.get(name)})

    def _agents(self, names: set[str]) -> None:
        for name in names:
            self.announce(AGENT_URI.format(name=name))
        if names:
            self.announce(AGENTS_URI)
