"""Interrupts a coding agent: ESC, and a look whether it stopped."""

import asyncio

from fleet.coder.client import Coder
from pallas_contracts.errors import Unavailable

ESCAPE = "\x1b"
_TRIES = 2
_SECONDS = 1.5
"""Seconds in which an agent stops after an ESC."""

_POLL_SECONDS = 0.1


async def interrupt(coder: Coder, workspace_id: str) -> str | None:
    """Interrupt what an agent does. Returns why it may still work; None: it does not.

    An agent that ignores the first ESC gets a second one.
    """
    try:
        workspace = await coder.workspace(workspace_id)
        terminal = coder.terminal(workspace) if workspace is not None and workspace.running else None
        if terminal is None:
            return None
        for _ in range(_TRIES):
            if await terminal.status() != "running":
                return None
            await terminal.press(ESCAPE)
            async with asyncio.timeout(_SECONDS + 1):
                for _ in range(int(_SECONDS / _POLL_SECONDS)):
                    if await terminal.status() != "running":
                        return None
                    await asyncio.sleep(_POLL_SECONDS)
    except (Unavailable, TimeoutError) as error:
        return f"its terminal does not answer: {error}"
    return "it goes on after two interrupts"
