"""Repairs what a lost process left undone. Every replica does it; each step is a compare-and-set.

- A task that was decided is written to the history, and its agent is freed.
- A task whose turn has ended without it (somebody cancelled the turn while it waited) is ended.
- A task that was never begun is cancelled and ended.
- Work of an agent that is no task yet becomes one: a person typed a prompt in Coder, or the agent began by itself.
- What is known of an agent whose workspace is gone is removed.
- An agent whose deletion was given up may get tasks again.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from fleet.coder.model import Workspace
from fleet.running.finding import FindTask
from fleet.running.stopping import StopTask
from fleet.running.typing import task_ref
from fleet.storing.tasks import FINAL, End
from pallas_bus.connection import Bus
from pallas_contracts.catalog import FLEET_TASKS_AGENT
from pallas_contracts.errors import Unavailable
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, TurnClaim
from pallas_turns.claims import claim_state, stored_outcome
from pallas_turns.liveness import WorkerLiveness, last_claims

log = logging.getLogger(__name__)

_UNBEGUN = timedelta(seconds=60)
"""How long a task may wait for a process that takes it."""

_ROUNDS = 4

_GONE_AFTER = timedelta(seconds=60)
"""How old an entry has to be before a list of workspaces without its workspace is believed."""


@dataclass(frozen=True)
class Reconcile:
    """Makes a round."""

    stopping: StopTask
    finding: FindTask
    _deleting: Counter[str] = field(default_factory=Counter[str])

    async def round(self, existing: Collection[str], busy: Iterable[Workspace]) -> None:
        """Repair all agents. `existing` are the ids of all workspaces, `busy` those whose agents work.

        Raises:
            Unavailable: the broker does not answer.
        """
        for entry in self.stopping.agents.all():
            if entry.task is not None:
                await self._repair(entry, entry.task)
            elif entry.workspace_id not in existing and entry.created_at < utc_now() - _GONE_AFTER:
                await self.forget(entry)
        await self._free_undeleted(existing)
        for workspace in busy:
            try:
                await self.finding.find(workspace)
            except Unavailable as error:
                if error.code != "terminal_unavailable":
                    raise

    async def _free_undeleted(self, existing: Collection[str]) -> None:
        """A call that deletes an agent has ended after `_ROUNDS` rounds."""
        marked = {entry.workspace_id: entry for entry in self.stopping.agents.all() if entry.deleting}
        for workspace_id in self._deleting.keys() - marked.keys():
            del self._deleting[workspace_id]
        for workspace_id, entry in marked.items():
            self._deleting[workspace_id] += 1
            if self._deleting[workspace_id] > _ROUNDS and workspace_id in existing:
                await self.stopping.agents.change(entry.name, partial(_unmarked, workspace_id))

    async def forget(self, entry: FleetAgent) -> None:
        """Remove everything that is known of an agent.

        Raises:
            Unavailable: the broker does not answer.
        """
        await self.stopping.ending.tasks.forget(entry)
        same = entry.workspace_id
        await self.stopping.agents.change(
            entry.name, lambda now: None if now is None or now.workspace_id == same else now
        )

    async def _repair(self, entry: FleetAgent, task: FleetTask) -> None:
        bus, ref = self.stopping.bus, task_ref(task.turn_id)
        if task.status in FINAL:
            await self.stopping.ending.release(entry)
        elif (outcome := await stored_outcome(bus, ref)) is not None:
            status = "stopped" if outcome.status == "cancelled" else "failed"
            await self.stopping.ending.end(entry.name, ref.turn_id, End(status, "its turn ended without it"))
        elif _late(task) and (await claim_state(bus, ref)).claim is None:
            log.warning("a task was never begun", extra={"agent": entry.name, "turn": ref.turn_id})
            await self.stopping.withdraw(entry, task, "the task was never begun", End("failed", "it was never begun"))


def _unmarked(workspace_id: str, entry: FleetAgent | None) -> FleetAgent | None:
    if entry is None or entry.workspace_id != workspace_id:
        return entry
    return entry.model_copy(update={"deleting": False})


def _late(task: FleetTask) -> bool:
    return task.status == "pending" and task.created_at < utc_now() - _UNBEGUN


_MOST_EARLY = 1000
"""How many claims are kept whose tasks are not known yet: entries and claims come on different ways."""


@dataclass
class _Held:
    turn_id: str
    holding: AbstractContextManager[Callable[[Claimed], None]]
    taken: Callable[[Claimed], None]
    position: int = 0


@dataclass
class WatchWorkers:
    """Watches the workers of the tasks in the entries of agents."""

    bus: Bus
    liveness: WorkerLiveness
    _held: dict[str, _Held] = field(default_factory=dict[str, _Held])
    _early: dict[str, tuple[TurnClaim, int]] = field(default_factory=dict[str, tuple[TurnClaim, int]])

    def changed(self, key: str, entry: FleetAgent | None) -> None:
        """The entry of an agent has changed: it may have another task, or none."""
        task = entry.task if entry is not None and entry.task is not None and entry.task.status not in FINAL else None
        known = self._held.get(key)
        if known is not None and (task is None or task.turn_id != known.turn_id):
            self._held.pop(key).holding.__exit__(None, None, None)
            known = None
        if known is None and task is not None:
            holding = self.liveness.holding(task.turn_id)
            self._held[key] = _Held(task.turn_id, holding, holding.__enter__())
            if (early := self._early.pop(task.turn_id, None)) is not None:
                self.on_claim(*early)

    def on_claim(self, message: TurnClaim, position: int) -> None:
        """A turn of the team was claimed or cancelled."""
        if message.agent == FLEET_TASKS_AGENT and all(it.turn_id != message.turn_id for it in self._held.values()):
            self._early[message.turn_id] = message, position
            if len(self._early) > _MOST_EARLY:
                del self._early[next(iter(self._early))]
        for held in self._held.values():
            if held.turn_id == message.turn_id and position > held.position:
                held.position = position
                if isinstance(message.claim, Claimed):
                    held.taken(message.claim)

    async def read(self, *, everything: bool = False) -> None:
        """Read the claims that were not heard: this process was not there, or the notification was lost.

        `everything`: also of tasks that were claimed before, as there was no connection.

        Raises:
            Unavailable: the broker does not answer.
        """
        unheard = [held for held in self._held.values() if everything or not held.position]
        known = {held.turn_id: held.position for held in unheard}
        claims = await last_claims(self.bus, [task_ref(held.turn_id) for held in unheard])
        for held in unheard:
            if (claim := claims.get(held.turn_id)) is not None and held.position == known[held.turn_id]:
                held.taken(claim)
