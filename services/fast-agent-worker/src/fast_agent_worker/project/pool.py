"""The connections of a project's agents to their MCP servers, which all turns share.

fast-agent connects each instance of an agent to its servers, and there is an instance for each turn. Here an agent has
one set of connections for all its turns: an aggregator of fast-agent's own, which each new instance gets instead of
one of its own. So names, schemas and results of tools are those that the model would see anyway.

One task enters and leaves each aggregator, as its task group requires; turns only use it. The same task connects
servers again that were away, or whose process has ended.
"""

import asyncio
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from fast_agent_worker.project.aggregator import SharedAggregator
from fast_agent_worker.project.stderr import last_lines

log = logging.getLogger(__name__)

ATTACH_SECONDS: Mapping[str, float] = {"stdio": 20.0}
"""How long a server may take to start and answer the handshake, by its transport, and again to list its tools."""
_OTHERS = 5.0
AT_A_TIME = 8
"""Servers that are being connected. More at a time would only make each of them slower, and its time would pass."""
_NEW = "not connected yet"
_LOST = "its process has ended"
_LOOKS = 1.0
"""Seconds between two looks at which servers are missing."""
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 30.0
"""Seconds between two attempts to connect a server: they double with each failure."""
_QUICK = 1.0
"""Seconds. A turn waits for a server that was away if the last attempt failed in less."""
_SAID = 800
"""Characters of what a server has written last that are told with its health."""
_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Exit)\b")
_SIGNS: Mapping[str, str] = {
    "timed out": "no answer in time",
    "ot found": "its program or folder is not there",
    "Permission denied": "its program must not be run",
    "onnection closed": "it ended before it had answered",
    "onnect": "cannot connect",
}
"""What fast-agent says of a server, and what that means."""


@dataclass(slots=True)
class _Server:
    """What is known of a server. `error` is why its tools are missing; None: they are there. `reason` is the same
    without what the server has written on standard error, which may be other words each time.

    `pause` is how many seconds are between the last failure and the next attempt; 0: it has not failed.
    """

    error: str | None = _NEW
    reason: str = ""
    pause: float = 0.0
    failed_at: float = 0.0
    took: float = 0.0
    attempt: asyncio.Task[None] | None = None

    def may_try(self, pause: float) -> bool:
        """Whether that many seconds have passed since the last failure."""
        return not self.pause or time.monotonic() - self.failed_at >= pause


class Connections:
    """The connections of one agent of a project. `places` bounds how many servers are being connected."""

    def __init__(self, context: Any, name: str, config: Any, servers: Iterable[str], places: asyncio.Semaphore) -> None:
        self.agent = name
        self.servers = {server: _Server() for server in servers}
        self._places = places
        self._aggregator = SharedAggregator(
            server_names=[], connection_persistence=True, context=context, name=name, config=config
        )
        self._aggregator.wanted = tuple(self.servers)
        self._registry = context.server_registry
        self._entered, self._ended = asyncio.Event(), asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect the servers. Whoever starts it closes it.

        Not before all agents are made: importing their modules holds up the event loop, and the time that a server has
        would pass.
        """
        # It outlives the turn that is first to use it, so it must not have that turn's context.
        self._owner = asyncio.create_task(self._own(), name=f"connections {self.agent}", context=Context())

    async def aggregator(self) -> SharedAggregator:
        """The aggregator, with the tools of all servers that answer.

        It waits for those that are connected for the first time or have ended, and for those that were away only if
        that is soon known.
        """
        await self._entered.wait()
        waiting = {
            task
            for name, server in self.servers.items()
            if (task := self._attempt(name, _QUICK)) is not None and server.took < _QUICK
        }
        if waiting:
            await asyncio.wait(waiting)
        return self._aggregator

    def health(self) -> dict[str, str | None]:
        """What is wrong with each server; None when it is connected."""
        return {name: self._missing(name) for name in self.servers}

    async def close(self) -> None:
        """Close all connections."""
        for server in self.servers.values():
            if server.attempt is not None:
                server.attempt.cancel()
        self._ended.set()
        if self._owner is not None:
            await asyncio.wait({self._owner}, timeout=8.0)
            self._owner.cancel()

    async def _own(self) -> None:
        async with self._aggregator:
            self._entered.set()
            while not self._ended.is_set():
                for name, server in self.servers.items():
                    self._attempt(name, server.pause)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOKS):
                        await self._ended.wait()
            await self._aggregator.end()

    def _missing(self, name: str) -> str | None:
        return self.servers[name].error or (_LOST if self._aggregator.has_lost(name) else None)

    def _attempt(self, name: str, pause: float) -> asyncio.Task[None] | None:
        """The attempt to connect a server that is missing; None if one failed less than a pause ago."""
        server = self.servers[name]
        if server.attempt is not None or self._missing(name) is None:
            return server.attempt
        if not server.may_try(pause):
            return None
        server.attempt = asyncio.create_task(self._connect(name, server), name=f"connect {name}", context=Context())
        return server.attempt

    async def _connect(self, name: str, server: _Server) -> None:
        config = self._registry.get_server_config(name)
        seconds = ATTACH_SECONDS.get(config.transport if config is not None else "", _OTHERS)
        async with self._places:
            began = time.monotonic()
            try:
                async with asyncio.timeout(2 * seconds):
                    await self._aggregator.connect(name, seconds)
            except Exception as error:  # fast-agent raises many kinds; each means that it is away
                log.debug("the server cannot be reached", exc_info=True)
                await asyncio.sleep(0)  # what it has written last may be there just now
                self._failed(name, server, _reason(error), last_lines(name))
                server.took = time.monotonic() - began
            else:
                if server.pause or server.error is None:
                    log.info("a server is connected again", extra={"agent": self.agent, "server": name})
                server.reason, server.error, server.pause, server.took = "", None, 0.0, 0.0
            finally:
                server.attempt = None

    def _failed(self, name: str, server: _Server, reason: str, stderr: Sequence[str]) -> None:
        if server.reason != reason:
            facts = {"agent": self.agent, "server": name, "reason": reason} | ({"stderr": stderr} if stderr else {})
            log.warning("agent runs without a server's tools; it is tried again", extra=facts)
        said = f" ({_last_first(stderr)[:_SAID]})" if stderr else ""
        server.reason, server.error, server.failed_at = reason, reason + said, time.monotonic()
        server.pause = min(max(2 * server.pause, _FIRST_PAUSE), _LONGEST_PAUSE)


def _last_first(lines: Sequence[str]) -> str:
    """The last lines of a server, the newest first, and before them an exception's: the end may be cut off."""
    newest = list(reversed(lines))
    newest.sort(key=lambda line: _EXCEPTION.match(line) is None)
    return " | ".join(newest)


def _reason(error: Exception) -> str:
    """Why a server is away.

    What fast-agent says of it is not passed on: it quotes addresses and arguments.
    """
    said = str(error)
    if status := re.search(r"HTTP Error: (\d{3})", said):
        return f"cannot be reached: status {status[1]}"
    known = next((words for sign, words in _SIGNS.items() if sign in said), type(error).__name__)
    return f"cannot be reached: {known}"
