"""Watches a coding agent until it is done: its terminal by events, its workspace by a look now and then."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

from fleet.coder.client import Coder
from fleet.coder.model import Workspace
from fleet.storing.tasks import End
from fleet.terminal.agent_api import Said, Status, Trouble
from pallas_contracts.errors import Unavailable

STABLE_SECONDS = 2.0
"""Seconds for which a terminal does not change once its agent is done."""

CHECK_SECONDS = 15.0
_STARTING_SECONDS = 1.0
_MOST_STARTING = 900.0
"""Seconds in which a workspace has to start."""

_UNSEEN_SECONDS = 15.0
"""Seconds for which a terminal has to be stable if the agent was not seen working."""

_UNNOTICED_SECONDS = 60.0
"""Seconds for which a terminal has to be stable if the agent perhaps never got its prompt."""

_RECONNECT_SECONDS = 0.25
_GONE_SECONDS, _SLOW_SECONDS = 15.0, 120.0
"""Seconds for which a terminal may be away whose workspace runs, once the agent works, and before."""


_NO_APP = "the workspace has no app of a coding agent"
_UNNOTICED = "nobody knows whether the agent has got its prompt, so it was not typed again: its terminal shows no sign"


class _Away:
    """The connection to the terminal broke, so what it does is not known."""


type Sure = Literal["typed", "perhaps", "given", "found"]
"""Whether a prompt was typed just now, perhaps was, or is given by Coder. If an agent was found, it works already."""

type _Item = Said | Status | Trouble | _Away | End


@dataclass
class Lines:
    """Tells each line of an agent's message once, when another one follows it or the terminal is stable.

    The last line of a message is what a program still draws, such as a spinner. Of lines that it draws again, those are
    told that are new.
    """

    tell: Callable[[str], None]
    _message: int = -1
    _drawn: list[str] = field(default_factory=list[str])
    _told: int = 0

    def shown(self, message: int, lines: list[str]) -> None:
        """A message has these lines now."""
        if message != self._message:
            self.end()
            self._message, self._drawn, self._told = message, [], 0
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._drawn, lines, strict=False)))
        known = frozenset(map(str.strip, self._drawn[same : self._told]))
        self._drawn, self._told = lines, min(self._told, same)
        self._tell(len(lines) - 1, known)

    def end(self) -> None:
        """The terminal does not change for now."""
        self._tell(len(self._drawn))

    def _tell(self, end: int, known: frozenset[str] = frozenset()) -> None:
        for text in map(str.strip, self._drawn[self._told : end]):
            if text and text not in known:
                self.tell(text)
        self._told = max(self._told, end)


@dataclass
class Watcher:
    """Watches one task. `tell` gets each line that the agent writes.

    `heard` is the id of the newest message. At first it is that of the prompt: what was said before is of other tasks.
    """

    coder: Coder
    workspace_id: str
    tell: Callable[[str], None]
    sure: Sure
    heard: int = -1
    last: str = ""
    _items: asyncio.Queue[_Item] = field(default_factory=asyncio.Queue[_Item])
    _lines: "Lines" = field(init=False)
    _prompt: int = field(init=False)
    _asked: bool = False
    _worked: bool = False
    _stable_since: float | None = None
    _spoke: float = float("-inf")

    def __post_init__(self) -> None:
        self._lines, self._prompt = Lines(self.tell), self.heard

    async def watch(self) -> End:
        """Return how the task ended. A Coder that is away ends nothing."""
        self._worked = self.sure == "typed"
        async with self._listening():
            while True:
                item = await self._next()
                if item is None:
                    if (end := await self._done()) is not None:
                        return end
                elif isinstance(item, End):
                    return item
                elif (end := self._take(item)) is not None:
                    return end

    async def _next(self) -> _Item | None:
        """What is heard next; None: the terminal has not changed for long enough."""
        if self._stable_since is None:
            return await self._items.get()
        unseen = _UNNOTICED_SECONDS if self.sure == "perhaps" else _UNSEEN_SECONDS
        enough = STABLE_SECONDS if self._worked else unseen
        try:
            async with asyncio.timeout_at(self._stable_since + enough):
                return await self._items.get()
        except TimeoutError:
            return None

    def _take(self, item: Said | Status | Trouble | _Away) -> End | None:
        match item:
            case Said():
                self.heard = max(self.heard, item.id)
                new = item.id > self._prompt
                shown = self._asked or (self.sure == "given" and item.text.strip() != "")
                self._worked |= item.role == "agent" and shown
                self._asked |= item.role == "user" and new
                mine = item.role == "agent" and new
                if mine and (text := item.text.strip()) and text != self.last:
                    self.last = text
                    self._lines.shown(item.id, text.splitlines())
            case Status(status="running"):
                self._worked, self._stable_since = True, None
            case Status():
                self._lines.end()
                if self._stable_since is None:
                    self._stable_since = asyncio.get_running_loop().time()
            case _Away():
                self._stable_since = None
            case Trouble():
                if item.level == "error":
                    return End("failed", item.message, heard=self.heard)
        return None

    async def _done(self) -> End | None:
        """The end of an agent whose terminal is stable; None: it works again, or cannot be asked."""
        with suppress(Unavailable):
            workspace = await self.coder.workspace(self.workspace_id)
            terminal = self.coder.terminal(workspace) if workspace is not None else None
            if workspace is None or terminal is None or await terminal.status() != "stable":
                self._stable_since = None
                return None
            if self.sure in ("perhaps", "given") and not self._worked:
                return End("failed", _UNNOTICED, heard=self.heard)
            return await self._judged(workspace)
        self._stable_since = asyncio.get_running_loop().time()
        return None

    async def _judged(self, workspace: Workspace) -> End:
        state = await self.coder.task_state(workspace)
        if state is not None and state.state == "failed":
            return End("failed", state.message or "the agent says that it has failed", heard=self.heard)
        asks = state.message if state is not None and state.needs_user_attention else None
        return End("completed", asks=asks, heard=self.heard)

    @asynccontextmanager
    async def _listening(self) -> AsyncGenerator[None]:
        async with asyncio.TaskGroup() as tasks:
            listening = [tasks.create_task(self._listen()), tasks.create_task(self._look())]
            try:
                yield
            finally:
                for task in listening:
                    task.cancel()

    async def _listen(self) -> None:
        """Hear the terminal. A new connection begins with what it shows now."""
        clock, silent = asyncio.get_running_loop().time, None
        while True:
            try:
                workspace = await self.coder.workspace(self.workspace_id)
                if (why := _cannot_work(workspace)) is not None:
                    self._items.put_nowait(End("failed", why))
                terminal = self.coder.terminal(workspace) if workspace is not None and workspace.running else None
                if terminal is not None:
                    async for event in terminal.events():
                        silent, self._spoke = None, clock()
                        self._items.put_nowait(event)
                    self._items.put_nowait(_Away())
            except Unavailable as error:
                silent = (silent or clock()) if error.code == "terminal_unavailable" else None
                if silent is not None and clock() > silent + (_GONE_SECONDS if self._worked else _SLOW_SECONDS):
                    self._items.put_nowait(End("failed", error.message, heard=self.heard))
            await asyncio.sleep(_RECONNECT_SECONDS if self._worked else _STARTING_SECONDS)

    async def _look(self) -> None:
        """Look whether there still is a workspace that can work. While its terminal speaks, there is."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._spoke > clock() - CHECK_SECONDS:
                continue
            with suppress(Unavailable):
                workspace = await self.coder.workspace(self.workspace_id)
                if (why := _cannot_work(workspace)) is not None:
                    self._items.put_nowait(End("failed", why))
                elif workspace is not None and workspace.running and self.coder.terminal(workspace) is None:
                    self._items.put_nowait(End("failed", _NO_APP))
                elif workspace is not None and not workspace.running and clock() - began > _MOST_STARTING:
                    self._items.put_nowait(End("failed", "the workspace does not start"))


async def until_ready(coder: Coder, workspace_id: str) -> str | None:
    """Wait until the terminal of a new agent waits for its first prompt. Returns why it never will."""
    clock = asyncio.get_running_loop().time
    until = clock() + _MOST_STARTING
    while clock() < until:
        with suppress(Unavailable):
            workspace = await coder.workspace(workspace_id)
            if (why := _cannot_work(workspace)) is not None:
                return why
            if workspace is not None and workspace.running:
                terminal = coder.terminal(workspace)
                if terminal is None:
                    return _NO_APP
                if await terminal.status() == "stable":
                    return None
        await asyncio.sleep(_STARTING_SECONDS)
    return "the workspace does not start, or its agent is never ready for its specification"


def _cannot_work(workspace: Workspace | None) -> str | None:
    """Why a workspace will never work again as it is; None: it works or may work soon."""
    if workspace is None or workspace.transition == "delete":
        return "the workspace was deleted"
    if workspace.transition == "stop":
        return "the workspace was stopped"
    if workspace.job_status in ("failed", "canceled"):
        return f"the workspace could not be provisioned: {workspace.job_error or workspace.job_status}"
    return workspace.not_started
