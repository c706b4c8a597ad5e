"""`start_agent_task`: gives an agent a task, if it has none."""

import asyncio
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from fleet.coder.client import Coder
from fleet.names import task_id, task_view, timestamp
from fleet.owners import Sources
from fleet.running.finding import FindTask, new_agent, summary_of, with_task
from fleet.running.stopping import StopTask
from fleet.running.typing import SUBMIT_SECONDS, submit_task, task_request
from fleet.seeing.fleet import Fleet, Seen
from fleet.storing.tasks import FINAL
from pallas_bus.errors import retry_while_unavailable
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Conflict, NotFound, PallasError, Rejected, Unavailable
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.ids import child_id
from pallas_contracts.message import utc_now
from pallas_hosting.functions.context import CallContext
from pallas_turns.claims import TurnRef
from pallas_turns.runtime import Turn

PATIENCE = 30.0
"""Seconds after a task was made in which its prompt has to be typed, whatever becomes of the call's processes."""

LONGEST_DESCRIPTION = 262_144

_retry = partial(retry_while_unavailable, what="start a task", deadline=SUBMIT_SECONDS)


@dataclass(frozen=True)
class StartTask:
    """Starts tasks."""

    fleet: Fleet
    stopping: StopTask
    finding: FindTask
    sources: Sources

    async def start(self, turn: Turn, name: str, description: str) -> JsonObject:
        """Start a task in the turn of a call, and return once its prompt is typed.

        Raises:
            NotFound: there is no such agent.
            Rejected: the description cannot be typed, or the agent is offline.
            Conflict: the agent has a task; the facts `task_id` and `since` say which. Or the new one was stopped
                meanwhile.
            Unavailable: Coder or the agent's terminal does not answer.
        """
        description = check_text("task_description", description, LONGEST_DESCRIPTION)
        task = await self.give(turn, name, description)
        shown = task_view(task)
        keys = ("id", "agent_name", "summary", "created_at")
        return {
            "task": {key: shown[key] for key in keys} | {"status": "running", "started_at": shown["started_at"]},
            "agent_status": "busy",
            "message": f"Task started on agent '{task.agent}'",
        }

    async def give(self, turn: Turn, name: str, description: str, *, behind: int | None = None) -> FleetTask:
        """Give an agent a task, and return it once its prompt is typed. It has to follow the task number `behind`.

        Raises:
            NotFound: there is no such agent.
            Rejected: the agent is offline.
            Conflict: the agent has a task, or had others since `behind`, or the task was stopped meanwhile.
            Unavailable: Coder or the agent's terminal does not answer.
        """
        turn_id = child_id(turn.turn_id, "task")
        entry, task = (await self._earlier(name, turn_id)) if turn.attempt > 1 else (None, None)
        if entry is None or task is None:
            entry = await self._take(turn, await self.fleet.find(name, turn.principal), turn_id, description, behind)
            task = entry.task
        assert task is not None
        if task.status not in FINAL:
            await self._submit(turn, entry, description)
            task = await self._typed(entry, task)
        if task.started_at is None or task.status == "stopped":
            raise _not_begun(task)
        return task

    async def _earlier(self, name: str, turn_id: str) -> tuple[FleetAgent | None, FleetTask | None]:
        """The task of this turn that an earlier attempt has made: the agent has it still, or had it."""
        entry = await _retry(lambda: self.stopping.agents.read(name))
        if entry is None:
            return None, None
        return entry, await _retry(lambda: self.stopping.ending.tasks.of_turn(entry, turn_id))

    async def _submit(self, turn: Turn, entry: FleetAgent, description: str) -> None:
        """Put the task's turn into its queue, if it is not there."""
        request = task_request(
            entry,
            description,
            principal=turn.principal,
            client=turn.client,
            parent=turn.turn_id,
            depth=turn.depth + 1,
        )
        await submit_task(self.stopping.bus, request)

    async def _take(self, turn: Turn, seen: Seen, turn_id: str, description: str, behind: int | None) -> FleetAgent:
        """The agent's entry with the task of this turn."""
        known = self.stopping.agents.of(seen.name, seen.workspace.id)
        if known is not None and known.task is not None and known.task.status in FINAL:
            await self.stopping.ending.release(known)  # whoever ended it was lost before
        if seen.status == "offline":
            raise Rejected(f"Agent '{seen.name}' is offline: {seen.why_offline}.", agent_status="offline")
        if seen.status == "busy" and (known is None or known.task is None):
            await self.finding.find(seen.workspace)
        source = self.sources.of(turn)

        def taken(entry: FleetAgent | None) -> FleetAgent:
            if entry is None or entry.workspace_id != seen.workspace.id:
                entry = new_agent(seen.name, seen.workspace)
            if entry.task is not None or entry.deleting or behind not in (None, entry.tasks):
                return entry
            return with_task(entry, turn_id, summary_of(description), source)

        # If the broker goes away meanwhile, the task may be there or not. Nobody else would begin it.
        entry = await _retry(lambda: self.stopping.agents.change(seen.name, taken))
        assert entry is not None
        if entry.task is not None and entry.task.turn_id == turn_id:
            return entry
        if entry.deleting:
            raise Conflict(f"Agent '{seen.name}' is being deleted.")
        if behind not in (None, entry.tasks):
            raise Conflict(f"Agent '{seen.name}' has been answered already, or has another task.")
        assert entry.task is not None
        raise _has_a_task(entry.task)

    async def _typed(self, entry: FleetAgent, task: FleetTask) -> FleetTask:
        """The task once its prompt is typed."""

        def begun(now: FleetAgent | None) -> bool:
            mine = now.task if now is not None else None
            return mine is None or mine.turn_id != task.turn_id or mine.status != "pending"

        agents = self.stopping.agents
        left = PATIENCE - (utc_now() - task.created_at).total_seconds()
        in_time = await agents.until(entry.name, begun, max(0.0, left))
        if not in_time:
            await self.stopping.stop(entry, "its prompt could not be typed in time")
        now = agents.of(entry.name, entry.workspace_id)
        if now is not None and now.task is not None and now.task.turn_id == task.turn_id:
            task = now.task
        elif (ended := await _retry(lambda: self.stopping.ending.tasks.find(entry, task.number))) is not None:
            task = ended
        else:
            raise NotFound(f"Agent '{entry.name}' does not exist any more: it was deleted.", agent_name=entry.name)
        if not in_time and task.started_at is None:
            raise Unavailable(f"Agent '{entry.name}' did not take the task within {PATIENCE:g} s.")
        return task

    async def abandoned(self, ref: TurnRef) -> None:
        """Withdraw the task of a call that ends without an answer, unless its prompt is typed: a caller may try again.

        Raises:
            Unavailable: the broker does not answer.
        """
        entry = self.stopping.agents.with_task(child_id(ref.turn_id, "task"))
        if entry is not None and entry.task is not None and entry.task.status == "pending":
            await self.stopping.stop(entry, "the call that started it has ended")


def _has_a_task(task: FleetTask) -> Conflict:
    since = timestamp(task.started_at or task.created_at)
    return Conflict(
        f"Agent '{task.agent}' already has a running task, since {since}: {task.summary}",
        task_id=task_id(task.turn_id),
        since=since,
    )


def _not_begun(task: FleetTask) -> PallasError:
    if task.status == "stopped":  # nothing is away, and a caller that tries again would undo the stop
        when = "before it began" if task.started_at is None else "after its prompt was typed"
        return Conflict(f"The task was stopped {when} on agent '{task.agent}'.", task_id=task_id(task.turn_id))
    why = (task.reason or task.status).rstrip(".")
    return Unavailable(f"The task could not be started on agent '{task.agent}': {why}.")


_PAUSE = 0.05
_LONGEST_PAUSE = 0.5
_FAILED = frozenset({"failed", "canceled"})


async def failure_of_build(coder: Coder, build_id: str, seconds: float, tell: Callable[[str], None]) -> str | None:
    """Why a build has failed; None: it has succeeded, or goes on after `seconds`. `tell` gets its status."""
    pause = _PAUSE
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                with suppress(Unavailable):  # it goes on without us
                    build = await coder.build(build_id)
                    if build is None or build.status == "succeeded":
                        return None
                    if build.status in _FAILED:
                        return build.error or f"the build was {build.status}"
                    tell(build.status)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
    return None


_ALLOWED_CONTROLS = frozenset("\n\t")
_UNSEEN = "CZ"
"""Categories of characters that show nothing: a terminal takes a prompt of them for an empty one."""


def check_text(field: str, text: str, longest: int) -> str:
    """Return the text as it is typed: lines that end in CRLF end in a line feed.

    Raises:
        Rejected: it is empty, too long, or has control characters.
    """
    text = text.replace("\r\n", "\n")
    if not any(unicodedata.category(letter)[0] not in _UNSEEN for letter in text):
        raise Rejected(f"{field} must not be empty.", field=field)
    if len(text) > longest:
        raise Rejected(f"{field} must have at most {longest} characters.", field=field)
    for at, letter in enumerate(text):
        if unicodedata.category(letter) in ("Cc", "Cs") and letter not in _ALLOWED_CONTROLS:
            raise Rejected(
                f"{field} has the control character U+{ord(letter):04X} at position {at}; only line feeds and tabs can "
                "be typed.",
                field=field,
            )
    return text


@dataclass
class Telling:
    """Tells the caller each new state of `what`."""

    ctx: CallContext
    what: str
    _told: int = 0
    _last: str | None = None

    def tell(self, state: str) -> None:
        """Tell a state, unless it is the last one."""
        if state != self._last:
            self._last, self._told = state, self._told + 1
            self.ctx.progress(self._told, message=f"{self.what}: {state}")
