"""Types the prompt of a task into a terminal, once: also if the process that typed it died before it knew."""

import asyncio
import logging
from collections.abc import Sequence

from fleet.terminal.agent_api import Said, Terminal
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

_QUIET_SECONDS = 2.0
"""Seconds in which a prompt that may be on its way shows up."""

_POLL_SECONDS = 0.2
_TRIES = 2


async def newest(terminal: Terminal) -> int:
    """The id of the newest message; -1: there is none.

    Raises:
        Unavailable: the terminal cannot be reached.
    """
    return max((said.id for said in await terminal.messages()), default=-1)


async def type_once(terminal: Terminal, text: str, after: int, *, again: bool) -> int:
    """Type a prompt behind the message `after`, and return the id of its message. `again`: it may be typed already.

    Raises:
        Unavailable: it could not be typed, or nobody knows whether it was.
        Conflict: the agent works on something else.
    """
    for attempt in range(_TRIES):
        if (again or attempt) and (found := await _shown_up(terminal, text, after)) is not None:
            return found
        try:
            await terminal.say(text)
        except Unavailable as error:
            if error.code != "uncertain":
                raise
            log.warning("it is not known whether the prompt was typed", extra={"reason": error.message})
            continue
        found = _find(await terminal.messages(), text, after)
        return after + 1 if found is None else found
    if (found := await _shown_up(terminal, text, after)) is not None:
        return found
    raise Unavailable("the agent's terminal took the prompt and did not show it")


async def _shown_up(terminal: Terminal, text: str, after: int) -> int | None:
    """The id of the prompt's message, as soon as it is there; None: the terminal does nothing and does not show it."""
    clock = asyncio.get_running_loop().time
    quiet = clock() + _QUIET_SECONDS
    while True:
        if (found := _find(await terminal.messages(), text, after)) is not None:
            return found
        if await terminal.status() == "running":
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
