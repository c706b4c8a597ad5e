"""Types the prompt of a task into a terminal, once: also if the process that typed it died before it knew."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from fleet.terminal.agent_api import Said, Terminal
from pallas_contracts.errors import Conflict, Unavailable

log = logging.getLogger(__name__)

_QUIET_SECONDS = 2.0
"""Seconds in which a prompt that may be on its way shows up."""

_POLL_SECONDS = 0.2

OFF = "workspace_off"
"""The code of an error that says that there is no terminal any more."""


async def newest(terminal: Terminal) -> int:
    """The id of the newest message; -1: there is none.

    Raises:
        Unavailable: the terminal cannot be reached.
    """
    return max((said.id for said in await terminal.messages()), default=-1)


async def type_once(terminal_of: Callable[[], Awaitable[Terminal]], text: str, after: int, *, again: bool) -> int:
    """Type a prompt behind the message `after`, and return the id of its message. `again`: it may be typed already.

    As soon as it may be typed, this goes on until it is known whether it is, however long the terminal is away.

    Raises:
        Unavailable: it was not typed.
        Conflict: the agent works on something else; it was not typed.
    """
    while True:
        if again and (found := await _shown_up(terminal_of, text, after)) is not None:
            return found
        try:
            terminal = await terminal_of()
            await terminal.say(text)
        except Unavailable as error:
            if error.code == OFF or (error.code != "uncertain" and not again):
                raise
            if not again:
                log.warning("it is not known whether the prompt was typed", extra={"reason": error.message})
        except Conflict:
            if not again:
                raise
        else:
            with suppress(Unavailable):
                if (found := _find(await terminal.messages(), text, after)) is not None:
                    return found
            return after + 1
        again = True
        await asyncio.sleep(_POLL_SECONDS)


async def _shown_up(terminal_of: Callable[[], Awaitable[Terminal]], text: str, after: int) -> int | None:
    """The id of the prompt's message, as soon as it is there; None: the terminal does nothing and does not show it."""
    clock = asyncio.get_running_loop().time
    quiet = clock() + _QUIET_SECONDS
    while True:
        try:
            terminal = await terminal_of()
            if (found := _find(await terminal.messages(), text, after)) is not None:
                return found
            works = await terminal.status() == "running"
        except Unavailable as error:
            if error.code == OFF:
                raise
            works = True
        if works:
            quiet = clock() + _QUIET_SECONDS
        elif clock() > quiet:
            return None
        await asyncio.sleep(_POLL_SECONDS)


def _find(messages: Sequence[Said], text: str, after: int) -> int | None:
    wanted = _plain(text)
    return next((it.id for it in messages if it.role == "user" and it.id > after and _plain(it.text) == wanted), None)


def _plain(text: str) -> str:
    """A text without the spaces that a terminal adds or removes."""
    return "".join(text.split())
