"""Whether agents work, as their terminals say: asked once for all calls that come at about the same time."""

import asyncio
import time
from typing import Literal

from fleet.coder.client import Coder
from fleet.coder.model import Workspace
from pallas_contracts.errors import Unavailable

SECONDS = 2.0
"""How old an answer may be."""

_PATIENCE = 1.0
_AT_ONCE = 20

type Working = Literal["running", "stable"] | None
"""None: the terminal does not answer."""


class Terminals:
    """The latest answers by workspace."""

    def __init__(self, coder: Coder) -> None:
        self._coder = coder
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._known: dict[str, tuple[float, Working]] = {}
        self._asking: dict[str, asyncio.Task[Working]] = {}

    async def working(self, workspace: Workspace) -> Working:
        """What the terminal of a workspace said at most `SECONDS` ago."""
        at, said = self._known.get(workspace.id, (float("-inf"), None))
        if at > time.monotonic() - SECONDS:
            return said
        asking = self._asking.get(workspace.id)
        if asking is None:
            asking = self._asking[workspace.id] = asyncio.create_task(self._ask(workspace))
        return await asyncio.shield(asking)

    def forget(self, workspace_id: str) -> None:
        """Its task has begun or ended: the next answer is to be given after this."""
        self._known.pop(workspace_id, None)
        self._asking.pop(workspace_id, None)

    def keep(self, workspaces: set[str]) -> None:
        """Forget all others."""
        for gone in self._known.keys() - workspaces:
            del self._known[gone]

    async def _ask(self, workspace: Workspace) -> Working:
        mine, began, said = asyncio.current_task(), time.monotonic(), None
        try:
            async with self._room, asyncio.timeout(_PATIENCE):
                terminal = self._coder.terminal(workspace)
                said = await terminal.status() if terminal is not None else None
        except (Unavailable, TimeoutError):
            said = None
        if self._asking.get(workspace.id) is mine:
            del self._asking[workspace.id]
            self._known[workspace.id] = began, said
        return said
