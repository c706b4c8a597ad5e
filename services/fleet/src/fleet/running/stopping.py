"""Stops tasks. A stop is the cancel of the task's turn; before the turn is ended, the agent is interrupted."""

import logging
from dataclasses import dataclass

from fleet.coder.client import Coder
from fleet.running.interrupting import interrupt
from fleet.running.requests import task_ref
from fleet.storing.agents import Agents
from fleet.storing.ending import End, Ending
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import claim_state, request_cancel
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.turns import CancelRequested

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0


@dataclass(frozen=True)
class StopTask:
    """Cancels tasks, and ends those whose turn ends without an answer."""

    bus: Bus
    coder: Coder
    agents: Agents
    ending: Ending

    async def stop(self, entry: FleetAgent, why: str) -> FleetTask | None:
        """Stop the task that an agent has. Returns it as it ended; None: it has not ended within `STOP_SECONDS`.

        Raises:
            Unavailable: the broker does not answer.
        """
        task = entry.task
        assert task is not None
        ref = task_ref(task.turn_id)
        await request_cancel(self.bus, ref, why)
        if task.status == "pending":
            await self.ended(ref)  # perhaps no process has its turn
        else:
            await self.agents.until(entry.name, lambda now: now is None or now.task is None, STOP_SECONDS)
        return await self.ending.tasks.find(entry, task.number)

    async def ended(self, ref: TurnRef) -> None:
        """Interrupt the agent and end its task, before the outcome of the task's turn is written.

        A turn that was cancelled is a task that was stopped; any other one has failed.
        """
        entry = self.agents.with_task(ref.turn_id)
        if entry is None:
            return
        state = await claim_state(self.bus, ref)
        cancelled = isinstance(state.claim, CancelRequested)
        goes_on = await interrupt(self.coder, entry.workspace_id)
        if goes_on is not None:
            log.warning("an agent may go on after its task", extra={"agent": entry.name, "reason": goes_on})
        reason = goes_on if cancelled else "the task's turn has failed; the log has the reason"
        await self.ending.end(entry.name, ref.turn_id, End("stopped" if cancelled else "failed", reason))
