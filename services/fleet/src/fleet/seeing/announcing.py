"""Announces changes of agents and tasks, which are resources (`agent/resources.py`), to whoever subscribed."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fleet.seeing.fleet import Seen
from fleet.times import task_id
from pallas_contracts.fleet import FleetAgent

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
