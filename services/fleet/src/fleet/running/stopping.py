"""Stops tasks. A stop is the cancel of the task's turn; before the turn is ended, the agent is interrupted."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from fleet.coder.client import Coder
from fleet.coder.model import Workspace
from fleet.running.finding import prompt_of
from fleet.running.typing import task_ref
from fleet.storing.agents import Agents
from fleet.storing.tasks import FINAL, End, Ending
from fleet.terminal.agent_api import Said, Terminal
from pallas_bus.connection import Bus
from pallas_contracts.errors import Unavailable
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.turns import CancelRequested
from pallas_turns.cancel import first_cancel
from pallas_turns.claims import TurnRef, claim_state, request_cancel

log = logging.getLogger(__name__)

ESCAPE = "\x1b"
_TRIES = 2
_SECONDS = 6.0
"""Seconds in which an agent stops after an ESC, and AgentAPI notices it. One that works after them has ignored it."""

_POLL_SECONDS = 0.1
_AWAY_SECONDS = 600.0
"""For how long Coder may be away: until it is back, nobody knows what the agent does."""

_SILENT_SECONDS = 3.0
"""For how long a terminal may be away whose workspace runs."""

_COMING_SECONDS = 2.0
"""Seconds in which a prompt that may be on its way shows up, and an agent that only pauses goes on."""

_PAUSE = 0.25


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What became of an agent. `goes_on`: why it may still work; `by_itself`: it was quiet and needed no ESC."""

    goes_on: str | None = None
    by_itself: bool = False


async def interrupt(coder: Coder, workspace_id: str, still: Callable[[], bool], *, coming: bool) -> Interrupted:
    """Interrupt what an agent does.

    An agent that ignores the first ESC gets a second one. While Coder is away or the workspace starts, this waits. It
    ends when it is not to be done any more, `still`. `coming`: an agent that is quiet may begin, or go on.
    """
    clock = asyncio.get_running_loop().time
    began, silent = clock(), None
    while still():
        try:
            workspace = await coder.workspace(workspace_id)
        except Unavailable as error:
            silent = None
            if clock() > began + _AWAY_SECONDS:
                return Interrupted(error.message)
        else:
            terminal = coder.terminal(workspace) if workspace is not None and workspace.running else None
            if terminal is not None:
                try:
                    stopped = await _stops(terminal, still, coming)
                except Unavailable as error:
                    silent = silent or clock()
                    if clock() > silent + _SILENT_SECONDS:
                        return Interrupted(f"its terminal does not answer: {error.message}")
                else:
                    return stopped
            elif workspace is None or workspace.running or not _starts(workspace):
                return Interrupted()
            elif clock() > began + _AWAY_SECONDS:
                return Interrupted("its workspace does not start")
            else:
                coming = True
        await asyncio.sleep(_PAUSE)
    return Interrupted()


def _starts(workspace: Workspace) -> bool:
    """Whether an agent that cannot be reached will begin, or go on, with what it was given."""
    started = workspace.transition == "start" and workspace.job_status in ("pending", "running", "succeeded")
    return started and not workspace.running  # else it has no terminal


async def _stops(terminal: Terminal, still: Callable[[], bool], coming: bool) -> Interrupted:
    if await _is(terminal, "stable", 0.0) and not (coming and await _is(terminal, "running", _COMING_SECONDS)):
        return Interrupted(by_itself=True)
    for _ in range(_TRIES):
        if not still():
            return Interrupted()
        await terminal.press(ESCAPE)
        if await _is(terminal, "stable", _SECONDS):
            return Interrupted()
    return Interrupted("it goes on after two interrupts")


async def _is(terminal: Terminal, wanted: str, seconds: float) -> bool:
    """Whether the terminal gets into a state within `seconds`."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while await terminal.status() != wanted:
        if clock() >= until:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


STOP_SECONDS = 15.0
"""Seconds for which a stop is waited for: an agent that ignores the first ESC gets its second one after six."""

_LOOK_SECONDS = 1.0
"""Seconds for which the end of a task waits for what its terminal shows."""


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
        if not await self.withdraw(entry, task, why, End("stopped")):
            await self.agents.until(entry.name, lambda now: not _has(now, task), STOP_SECONDS)
        return await self.ending.tasks.find(entry, task.number)

    async def withdraw(self, entry: FleetAgent, task: FleetTask, why: str, end: End) -> bool:
        """Cancel a task's turn. If no process has had it, the task ends here; else whoever has it stops the agent.

        Raises:
            Unavailable: the broker does not answer.
        """
        ref = task_ref(task.turn_id)
        await request_cancel(self.bus, ref, why)
        if task.status != "pending" or await first_cancel(self.bus, ref) is None:
            return False
        with suppress(TimeoutError):  # the agent may have begun by itself, or a person's prompt
            async with asyncio.timeout(STOP_SECONDS):
                agent = await self._interrupt(entry, task.turn_id, coming=False)
                await self.ending.end(entry.name, task.turn_id, replace(end, reason=agent.goes_on or end.reason))
        return True

    async def ended(self, ref: TurnRef) -> None:
        """Interrupt the agent and end its task, before the outcome of the task's turn is written.

        A turn that was cancelled is a task that was stopped, unless its agent was done. Any other one has failed.
        """
        entry = self.agents.with_task(ref.turn_id)
        if entry is None or entry.task is None:
            return
        state = await claim_state(self.bus, ref)
        cancelled = isinstance(state.claim, CancelRequested)
        agent = await self._interrupt(entry, ref.turn_id, coming=True)
        prompt = await self._unrecorded(entry, entry.task)
        if not cancelled:
            end = End("failed", "the task's turn has failed; the log has the reason")
        elif agent.by_itself and (prompt is not None or entry.task.status == "running"):
            end = End("completed")
        else:
            end = End("stopped", agent.goes_on)
        if prompt is not None:
            end = replace(end, began=prompt.at, message=prompt.id, heard=prompt.id)
        await self.ending.end(entry.name, ref.turn_id, end)

    async def _unrecorded(self, entry: FleetAgent, task: FleetTask) -> Said | None:
        """The prompt of a task whose process was stopped while it typed it, if the terminal has taken it."""
        if task.status != "pending":
            return None
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                workspace = await self.coder.workspace(entry.workspace_id)
                terminal = self.coder.terminal(workspace) if workspace is not None and workspace.running else None
                if terminal is not None:
                    return prompt_of(task, await terminal.messages(), entry.heard)
        return None

    async def _interrupt(self, entry: FleetAgent, turn_id: str, *, coming: bool) -> Interrupted:
        found = await interrupt(self.coder, entry.workspace_id, lambda: self._runs(turn_id), coming=coming)
        if found.goes_on is not None:
            log.warning("an agent may go on after its task", extra={"agent": entry.name, "reason": found.goes_on})
        return found

    def _runs(self, turn_id: str) -> bool:
        """Whether a task has not ended: of one that has, the agent may have the next one already."""
        entry = self.agents.with_task(turn_id)
        return entry is not None and entry.task is not None and entry.task.status not in FINAL


def _has(entry: FleetAgent | None, task: FleetTask) -> bool:
    return entry is not None and entry.task is not None and entry.task.turn_id == task.turn_id
