"""The agents' endpoints: they come, change and go with the catalogue, while requests are served.

An endpoint that is replaced or retired takes no new requests and lives on until those it has are answered.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp.server.request_state import RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from agent_gateway.mcp.observers import Platform
from agent_gateway.mcp.server import AgentServer
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import DATA_TEAM

log = logging.getLogger(__name__)


@dataclass
class Endpoint:
    """One agent's MCP endpoint. Its session manager must start and end in one task, which is `_live`'s."""

    agent: AgentServer
    manager: StreamableHTTPSessionManager
    _under_way: int = 0
    _retired: bool = False
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, while it is `kept`."""
        await self._ready.wait()
        await self.manager.handle_request(scope, receive, send)

    @contextmanager
    def kept(self) -> Generator[None]:
        """Keep the endpoint for a request that has found it: it may be retired before the request is read."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if self._retired and not self._under_way:
                self._idle.set()

    async def live(self) -> None:
        """Run the endpoint until it is retired and idle."""
        async with self.manager.run():
            self._ready.set()
            await self._idle.wait()

    async def replaced_by(self, definition: AgentDefinition) -> None:
        """Announce to subscribed clients what the successor changes, and retire."""
        await self.agent.change(definition)
        self.retire()

    def retire(self) -> None:
        """Take no new requests."""
        self._retired = True
        self.agent.end_listening()
        if not self._under_way:
            self._idle.set()


@dataclass
class Endpoints:
    """All endpoints by `{team}.{agent}`. `spawn` runs a task until the gateway ends."""

    platform: Platform
    security: TransportSecuritySettings
    state_security: RequestStateSecurity
    max_body_bytes: int
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    _endpoints: dict[str, Endpoint] = field(default_factory=dict[str, Endpoint])
    _by_name: dict[str, dict[str, Endpoint]] = field(default_factory=dict[str, dict[str, Endpoint]])

    def changed(self, key: str, definition: AgentDefinition | None) -> None:
        """Follow the catalogue: an agent is new, different, or gone (None)."""
        known, (team, _, agent) = self._endpoints.get(key), key.partition(".")
        if definition is None:
            if known is not None:
                del self._endpoints[key]
                del self._by_name[agent][team]
                if not self._by_name[agent]:
                    del self._by_name[agent]
                known.retire()
                log.info("endpoint retired", extra={"endpoint": key})
        elif known is not None and known.agent.can_change_to(definition):
            self.spawn(known.agent.change(definition))
        else:
            opened = self._endpoints[key] = self._open(definition)
            self._by_name.setdefault(agent, {})[team] = opened
            if known is not None:
                self.spawn(known.replaced_by(definition))
            log.info("endpoint opened", extra={"endpoint": key, "version": definition.version})

    def _open(self, definition: AgentDefinition) -> Endpoint:
        agent = AgentServer(definition, self.platform, self.state_security)
        manager = StreamableHTTPSessionManager(
            agent.server,
            stateless=True,
            json_response=False,
            security_settings=self.security,
            max_request_body_size=self.max_body_bytes,
        )
        endpoint = Endpoint(agent, manager)
        self.spawn(endpoint.live())
        return endpoint

    def resource_changed(self, team: str, agent: str, uri: str) -> None:
        """A resource of an agent has changed."""
        if (endpoint := self._endpoints.get(f"{team}.{agent}")) is not None:
            endpoint.agent.resources.changed(uri)

    async def changes_missed(self) -> None:
        """Changes of resources may have been missed."""
        for endpoint in self._endpoints.values():
            endpoint.agent.resources.missed()

    def end_listening(self) -> None:
        """End all streams of changes in the protocol's own way."""
        for endpoint in self._endpoints.values():
            endpoint.agent.end_listening()

    def find(self, team: str, agent: str) -> Endpoint | str:
        """The endpoint of an agent, or why there is none."""
        return self._endpoints.get(f"{team}.{agent}") or f"Team {team[:64]!r} has no agent {agent[:64]!r}."

    def all(self) -> Iterable[Endpoint]:
        """Every endpoint."""
        return self._endpoints.values()

    def named(self, agent: str) -> dict[str, Endpoint]:
        """The endpoints of the agents of that name, by team."""
        return dict(self._by_name.get(agent, {}))

    def find_unique(self, agent: str) -> Endpoint | str:
        """The endpoint of the only agent of that name, or why there is none.

        A data agent does not count while a team has one: whoever may register data agents must not hide it.
        """
        found = self.named(agent)
        if len(found) > 1:
            found.pop(DATA_TEAM, None)
        match list(found.values()):
            case [endpoint]:
                return endpoint
            case []:
                return f"There is no agent {agent[:64]!r}."
            case _:
                paths = ", ".join(f"/teams/{team}/mcp/{agent}" for team in sorted(found))
                return f"Several teams have an agent {agent!r}: use one of {paths}."
