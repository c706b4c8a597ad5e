"""Types the prompt of a task into a terminal, once: also if the process that typed it died before it knew.

Where it is not known whether a prompt was typed, it is typed again only if the terminal shows that nothing was: it did
nothing since, and its conversation is as it was before. What AgentAPI says that it has typed is never typed again.

The turn of a task is made here, too: its arguments say what is to be typed.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from fleet.terminal.agent_api import Said, Terminal
from pallas_bus.connection import Bus
from pallas_bus.errors import retry_while_unavailable
from pallas_contracts.catalog import FLEET_TASKS_AGENT, FLEET_TEAM
from pallas_contracts.errors import Conflict, Unavailable
from pallas_contracts.fleet import FleetAgent
from pallas_contracts.message import Message, utc_now
from pallas_contracts.turns import ClientContext, Principal, TurnRequested
from pallas_turns.claims import TurnRef
from pallas_turns.content import offload_request
from pallas_turns.queue import submit

log = logging.getLogger(__name__)

_QUIET_SECONDS = 2.0
"""Seconds in which a prompt that may be on its way shows up."""

_POLL_SECONDS = 0.2

OFF = "workspace_off"
"""The code of an error that says that there is no terminal any more."""

_UNTYPED = -1
"""In place of the id of a message: the prompt was not typed."""


@dataclass(frozen=True, slots=True)
class Before:
    """A conversation before a prompt is typed: the id of its newest message (-1: none), and what it shows.

    An attempt that takes over from a process of an older release does not know what it showed.
    """

    newest: int
    shown: str = ""

    @classmethod
    def of(cls, said: Sequence[Said]) -> "Before":
        """The conversation as it is now."""
        text = "\0".join(f"{it.id} {it.text}" for it in said)
        return cls(max((it.id for it in said), default=-1), hashlib.sha256(text.encode()).hexdigest())


async def type_once(
    terminal_of: Callable[[], Awaitable[Terminal]], text: str, before: Before, *, again: bool
) -> int | None:
    """Type a prompt, and return the id of its message; None: the agent may have it, and nothing shows it.

    `again`: it may be typed already. As soon as it may be typed, this goes on until it is known whether it is, however
    long the terminal is away.

    Raises:
        Unavailable: it was not typed.
        Conflict: the agent works on something else; it was not typed.
    """
    while True:
        if again and (shown := await _look(terminal_of, text, before)) != _UNTYPED:
            return shown
        try:
            terminal = await terminal_of()
            await terminal.say(text)
        except Unavailable as error:
            if error.code == OFF or (error.code not in ("uncertain", "typed_unnoticed") and not again):
                raise
            if not again:
                log.warning("it is not known whether the prompt was typed", extra={"reason": error.message})
            if error.code == "typed_unnoticed":
                shown = await _look(terminal_of, text, before)
                return None if shown == _UNTYPED else shown
        except Conflict:
            if not again:
                raise
        else:
            with suppress(Unavailable):
                if (found := _find(await terminal.messages(), text, before.newest)) is not None:
                    return found
            return before.newest + 1
        again = True
        await asyncio.sleep(_POLL_SECONDS)


async def _look(terminal_of: Callable[[], Awaitable[Terminal]], text: str, before: Before) -> int | None:
    """The id of the prompt's message, as soon as it is there. Without it this ends when the terminal does nothing.

    Then it is `_UNTYPED` if the terminal did nothing meanwhile and shows what it showed before, and else None.
    """
    clock = asyncio.get_running_loop().time
    quiet, moved = clock() + _QUIET_SECONDS, False
    while True:
        try:
            terminal = await terminal_of()
            said = await terminal.messages()
            if (found := _find(said, text, before.newest)) is not None:
                return found
            works = await terminal.status() == "running"
            moved |= works or Before.of(said) != before
        except Unavailable as error:
            if error.code == OFF:
                raise
            works = True
        if works:
            quiet = clock() + _QUIET_SECONDS
        elif clock() > quiet:
            return None if moved else _UNTYPED
        await asyncio.sleep(_POLL_SECONDS)


def _find(messages: Sequence[Said], text: str, after: int) -> int | None:
    wanted = _plain(text)
    return next((it.id for it in messages if it.role == "user" and it.id > after and _plain(it.text) == wanted), None)


def _plain(text: str) -> str:
    """A text without the spaces that a terminal adds or removes."""
    return "".join(text.split())


RUN_TASK = "run_task"
FLEET = Principal(type="peer", id="fleet")
"""Who makes the turns of tasks that were found."""

_NO_CLIENT = ClientContext(protocol_version="")
SUBMIT_SECONDS = 10.0
"""For how long a broker may be away while a task begins."""


class RunTask(Message):
    """The arguments of a task's turn. Without a `description` there is nothing to type: the agent works already.

    `new`: its workspace is starting.
    """

    agent: str
    workspace_id: str
    description: str | None = None
    new: bool = False


def task_ref(turn_id: str) -> TurnRef:
    """The identity of a task's turn."""
    return TurnRef(FLEET_TEAM, FLEET_TASKS_AGENT, turn_id)


def task_request(
    agent: FleetAgent,
    description: str | None = None,
    *,
    principal: Principal = FLEET,
    client: ClientContext = _NO_CLIENT,
    parent: str | None = None,
    depth: int = 0,
    new: bool = False,
) -> TurnRequested:
    """The turn of the task that an agent has. `parent` is the turn that starts it; `new`: the agent is to start."""
    assert agent.task is not None
    given = RunTask(agent=agent.name, workspace_id=agent.workspace_id, description=description, new=new)
    return TurnRequested(
        turn_id=agent.task.turn_id,
        team=FLEET_TEAM,
        agent=FLEET_TASKS_AGENT,
        tool=RUN_TASK,
        arguments=given.model_dump(),
        principal=principal,
        parent=parent,
        depth=depth,
        client=client.model_copy(update={"progress": False, "log_level": None}),
        requested_at=utc_now(),
    )


async def submit_task(bus: Bus, request: TurnRequested) -> None:
    """Put the turn of a task into its queue. To do so again is no error.

    Raises:
        Unavailable: the broker does not answer.
    """
    light = await offload_request(bus, request)
    await retry_while_unavailable(lambda: submit(bus, light), "submit the task", deadline=SUBMIT_SECONDS)
