"""Gives back tasks that a lost replica has: whoever is left goes on watching them, within about a second.

Nobody follows a task, so each replica watches the workers of all of them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from fleet.running.requests import task_ref
from fleet.storing.ending import FINAL
from pallas_bus.transport.connection import Bus
from pallas_calls.last_claims import last_claims
from pallas_calls.worker_liveness import WorkerLiveness
from pallas_contracts.catalog import FLEET_TASKS_AGENT
from pallas_contracts.fleet import FleetAgent
from pallas_contracts.turns import Claimed, TurnClaim

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
