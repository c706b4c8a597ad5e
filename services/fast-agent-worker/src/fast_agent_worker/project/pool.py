"""The connections of a project's agents to their MCP servers, which all turns share.

fast-agent connects each instance of an agent to its servers, and there is an instance for each turn. Here an agent has
one set of connections for all its turns: an aggregator of fast-agent's own, which each new instance gets instead of
one of its own. So names, schemas and results of tools are those that the model would see anyway.

One task enters and leaves each aggregator, as its task group requires; turns only use it.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from contextvars import Context
from typing import Any, Self

from fast_agent.mcp.mcp_aggregator import MCPAggregator, MCPAttachOptions
from mcp_types import ListToolsResult

log = logging.getLogger(__name__)

ATTACH_SECONDS: Mapping[str, float] = {"stdio": 20.0}
"""How long a server may take to start and answer the handshake, by its transport."""
_OTHERS = 5.0
_NEW = "not connected yet"
COOL_DOWN = 1.0
"""Seconds after a failed attempt in which turns do without the server instead of trying again."""


class SharedAggregator(MCPAggregator):
    """Opened and closed by its pool only, not by the instances that use it.

    An instance that is disposed says that it is not initialized. Then the next one would open it again, with new
    connections in place of those that other turns use.
    """

    _opened = False
    _listed: tuple[Any, str] = (None, "")
    wanted: tuple[str, ...] = ()

    async def __aenter__(self) -> Self:
        """Open it once."""
        if not self._opened:
            await super().__aenter__()
        return self

    async def load_servers(self, *, force_connect: bool = False) -> None:
        """Load them once."""
        if not self._opened:
            await super().load_servers(force_connect=force_connect)
        self._opened = self.initialized = True

    async def list_tools(self) -> ListToolsResult:
        """All tools in the order of the agent's servers, as objects of the caller's own.

        A model is shown them with each call. Reading them from JSON takes a fraction of the time of copying them.
        """
        if not self.initialized or self._listed[0] != self._known():
            listed = await self._sorted()
            self._listed = self._known(), listed.model_dump_json(by_alias=True, exclude_unset=True)
        return ListToolsResult.model_validate_json(self._listed[1])

    def _known(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a list of tools is made of."""
        return dict(self._namespaced_tool_map), dict(self._app_integration_configs)

    async def _sorted(self) -> ListToolsResult:
        """Those of a server whose list changes would move to the end."""
        listed = await super().list_tools()
        servers = {name: it.server_name for name, it in self._namespaced_tool_map.items()}
        place = {name: number for number, name in enumerate(self.wanted)}
        tools = sorted(listed.tools, key=lambda tool: place.get(servers.get(tool.name, ""), len(place)))
        return ListToolsResult(tools=tools)

    async def close(self) -> None:
        """Do nothing: an instance is disposed, the connections stay."""

    async def end(self) -> None:
        """Close the connections."""
        await super().close()


class Connections:
    """The connections of one agent of a project."""

    def __init__(self, context: Any, name: str, config: Any, servers: Iterable[str]) -> None:
        self.servers = tuple(servers)
        self.errors: dict[str, str | None] = dict.fromkeys(self.servers, _NEW)
        self._aggregator = SharedAggregator(
            server_names=[], connection_persistence=True, context=context, name=name, config=config
        )
        self._aggregator.wanted = self.servers
        self._registry = context.server_registry
        self._entered, self._ended = asyncio.Event(), asyncio.Event()
        self._attaching: dict[str, asyncio.Task[None]] = {}
        self._failed_at: dict[str, float] = {}
        # It outlives the turn that is first to use it, so it must not have that turn's context.
        self._owner = asyncio.create_task(self._own(), name=f"connections {name}", context=Context())

    async def aggregator(self) -> SharedAggregator:
        """The aggregator. It waits for servers that are connected for the first time, not for those that were away."""
        await self._entered.wait()
        missing = {name: self._attach_once(name) for name in self.servers if self.errors[name] is not None}
        waiting = {task for name, task in missing.items() if task is not None and self.errors[name] == _NEW}
        if waiting:
            await asyncio.wait(waiting, timeout=max(map(self._seconds, self.servers)))
        return self._aggregator

    def health(self) -> dict[str, str | None]:
        """What is wrong with each server; None when it is connected."""
        running = getattr(self._aggregator._persistent_connection_manager, "running_servers", {})
        return {
            name: error or (None if name in running and running[name].is_healthy() else "connection lost")
            for name, error in self.errors.items()
        }

    async def close(self) -> None:
        """Close all connections."""
        for task in self._attaching.values():
            task.cancel()
        self._ended.set()
        await asyncio.wait({self._owner}, timeout=8.0)
        self._owner.cancel()

    def _seconds(self, name: str) -> float:
        config = self._registry.get_server_config(name)
        return ATTACH_SECONDS.get(config.transport if config is not None else "", _OTHERS)

    async def _own(self) -> None:
        async with self._aggregator:
            self._entered.set()
            for name in self.servers:
                self._attach_once(name)
            await self._ended.wait()
            await self._aggregator.end()

    def _attach_once(self, name: str) -> asyncio.Task[None] | None:
        """The running attempt to connect a server, or a new one; None right after one that failed."""
        if name in self._attaching:
            return self._attaching[name]
        if time.monotonic() - self._failed_at.get(name, -COOL_DOWN) < COOL_DOWN:
            return None
        task = asyncio.create_task(self._attach(name), name=f"connect {name}", context=Context())
        self._attaching[name] = task
        task.add_done_callback(lambda _done: self._attaching.pop(name, None))
        return task

    async def _attach(self, name: str) -> None:
        try:
            options = MCPAttachOptions(startup_timeout_seconds=self._seconds(name))
            await self._aggregator.attach_server(server_name=name, options=options)
        except Exception as error:  # fast-agent raises many kinds; each means that it is away
            log.debug("the server cannot be reached", exc_info=True)
            self._failed_at[name], self.errors[name] = time.monotonic(), f"cannot be reached: {type(error).__name__}"
            log.warning("agent runs without a server's tools", extra={"server": name, "reason": self.errors[name]})
        else:
            self.errors[name] = None
