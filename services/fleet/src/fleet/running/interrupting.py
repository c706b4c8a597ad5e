"""Interrupts a coding agent: ESC, and a look whether it stopped.

AgentAPI says for two seconds more that an agent works that has stopped. A second ESC in this time is another key: in
Claude Code it edits the last prompt.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from fleet.coder.client import Coder
from fleet.coder.model import Workspace
from fleet.terminal.agent_api import Terminal
from pallas_contracts.errors import Unavailable

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
