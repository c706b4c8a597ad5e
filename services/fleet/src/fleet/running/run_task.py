"""Executes the turns of tasks: type the prompt once, then watch until the agent is done.

An attempt that takes a task over types nothing that was typed, and goes on watching. One that is cancelled does
nothing: whoever ends its turn calls `StopTask.ended` first.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fleet.coder.client import Coder
from fleet.names import task_view
from fleet.running.typing import OFF, Before, RunTask, type_once
from fleet.running.watching import Sure, Watcher, until_ready
from fleet.storing.agents import Agents
from fleet.storing.tasks import FINAL, End, Ending
from fleet.terminal.agent_api import Terminal
from pallas_bus.errors import retry_while_unavailable
from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.bounds import line
from pallas_contracts.errors import NotFound, Unavailable
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Progress, Result
from pallas_hosting.functions.durable import DurableSteps, NothingOutside, StepFailed
from pallas_turns.events import Emitter
from pallas_turns.runtime import Completed, Failed, JournalUnusable, Outcome, Steps, Turn

_TELL_SECONDS = 0.25
"""Seconds for which lines of an agent are collected."""

_MOST_LINES = 20
"""Lines that are reported of those that come in this time."""

_retry = partial(retry_while_unavailable, what="record what a task does", deadline=None)
"""A broker that is away ends no task: its agent goes on."""


@dataclass(frozen=True)
class TaskRuntime:
    """The runtime of the agent `fleet/tasks`."""

    coder: Coder
    agents: Agents
    ending: Ending
    wrote: Callable[[str], None] = lambda turn_id: None
    """Is called with the turn of a task whose agent has written something."""

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt (see `AgentRuntime`)."""
        given = RunTask.model_validate(turn.arguments)
        steps = Steps(turn, emit)
        try:
            entry = await _retry(lambda: self.agents.read(given.agent))
            task = await self._task(entry, turn.turn_id) if entry is not None else None
            if task is None:
                return Failed("cancelled", "The task was given up before it began.")
            if task.status in FINAL:  # an attempt that was lost then has ended it
                return Completed(_result(task, ""))
            end, last = await self._run(turn, given, steps, emit)
            ended = await _retry(lambda: self.ending.end(given.agent, turn.turn_id, end))
        except JournalUnusable as error:
            return Failed("worker_lost", f"The task cannot go on where it stopped: {error.reason}.")
        return Completed(_result(ended or task, last))

    async def read(self, question: AgentRead) -> JsonObject:
        """There is nothing to read."""
        raise NotFound(f"agent {question.agent!r} has no resources")

    async def _task(self, entry: FleetAgent, turn_id: str) -> FleetTask | None:
        """The task of a turn; one that has ended is in the history then."""
        task = await _retry(lambda: self.ending.tasks.of_turn(entry, turn_id))
        if task is not None and task.status in FINAL and entry.task == task:
            await _retry(lambda: self.ending.release(entry))
        return task

    async def _run(self, turn: Turn, given: RunTask, steps: Steps, emit: Emitter) -> tuple[End, str]:
        heard, message = -1, None
        if given.description is not None:
            if given.new and (why := await until_ready(self.coder, given.workspace_id)) is not None:
                return End("failed", why), ""
            try:
                heard, message = await self._type(turn, given.description, given, steps, emit)
            except StepFailed as error:
                return End("failed", error.message), ""
        await self._began(given.agent, turn.turn_id, message)
        teller = _Teller(given.agent, emit, lambda: self.wrote(turn.turn_id))
        sure: Sure = "typed" if message is not None else "perhaps"
        if given.description is None:
            sure = "given" if given.new else "found"
        watcher = Watcher(self.coder, given.workspace_id, teller.tell, sure, heard)
        with steps.elsewhere():
            try:
                end = await watcher.watch()
            finally:
                teller.flush()
        return replace(end, heard=max(watcher.heard, heard)), watcher.last

    async def _type(self, turn: Turn, text: str, given: RunTask, steps: Steps, emit: Emitter) -> tuple[int, int | None]:
        """Type the prompt as two steps. Returns what was said until then, and the prompt's message if it is known."""
        durable = DurableSteps(turn.agent, steps, emit, NothingOutside(), safe=True)

        async def look() -> list[int | str]:
            before = Before.of(await (await self._terminal(given)).messages())
            return [before.newest, before.shown]

        known: list[Any] | int = await durable.run(durable.take(), "look", look)
        before = Before(known) if isinstance(known, int) else Before(*known)

        async def send() -> int | None:
            return await type_once(lambda: self._terminal(given), text, before, again=turn.attempt > 1)

        message: int | None = await durable.run(durable.take(), "send", send)
        return before.newest if message is None else message, message

    async def _terminal(self, given: RunTask) -> Terminal:
        workspace = await self.coder.workspace(given.workspace_id)
        terminal = self.coder.terminal(workspace) if workspace is not None and workspace.running else None
        if terminal is None:
            off = workspace is None or workspace.transition != "start"
            raise Unavailable(
                f"The workspace of agent {given.agent!r} is not running.", code=OFF if off else "not_running"
            )
        return terminal

    async def _began(self, name: str, turn_id: str, message: int | None) -> None:
        """The prompt is typed: the task runs."""

        def began(entry: FleetAgent | None) -> FleetAgent | None:
            if entry is None or entry.task is None or entry.task.turn_id != turn_id or entry.task.status != "pending":
                return entry
            task = entry.task.model_copy(update={"status": "running", "started_at": utc_now(), "message": message})
            return entry.model_copy(update={"task": task})

        await _retry(lambda: self.agents.change(name, began))


class _Teller:
    """Reports what an agent writes as progress: some lines at a time, and of many the latest."""

    def __init__(self, name: str, emit: Emitter, wrote: Callable[[], None]) -> None:
        self._name = name
        self._emit = emit
        self._wrote = wrote
        self._told = 0
        self._waiting = deque[str](maxlen=_MOST_LINES)
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, text: str) -> None:
        """Report a line."""
        self._waiting.append(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TELL_SECONDS, self.flush)

    def flush(self) -> None:
        """Report what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._wrote()
        while self._waiting:
            self._told += 1
            message = line(f"{self._name}: {self._waiting.popleft()}")
            self._emit.emit(Progress(progress=self._told, message=message))


def _result(task: FleetTask, last: str) -> Result:
    answer = {"task": task_view(task), "reason": task.reason, "asks": task.asks, "last_message": last}
    text = json.dumps(answer, ensure_ascii=False)
    return Result(content=({"type": "text", "text": text},), structured=answer, is_error=task.status == "failed")
