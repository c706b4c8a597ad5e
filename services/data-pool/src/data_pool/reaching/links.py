"""How each agent is called from here: at its endpoint if it has one, else over its WebSocket, if that is here."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx2

from data_pool.reaching.endpoint import EndpointLink, Network
from data_pool.reaching.link import Link
from data_pool.reaching.socket_calls import SocketCalls, SocketLink
from pallas_bus.connection import Bus
from pallas_contracts.data_agents import Endpoint


@dataclass
class Links:
    """The links by agent: those to endpoints, and those over the WebSockets of this replica."""

    bus: Bus
    http: httpx2.AsyncClient
    networks: Sequence[Network]
    _endpoints: dict[str, tuple[Endpoint, Link]] = field(default_factory=dict[str, tuple[Endpoint, Link]])
    _sockets: dict[str, list[SocketLink]] = field(default_factory=dict[str, list[SocketLink]])

    def find(self, agent: str) -> Link | None:
        """How to call an agent now; None if it cannot be called from here."""
        _, link = self._endpoints.get(agent, (None, None))
        return link or next(reversed(self._sockets.get(agent, ())), None)

    def follow(self, agent: str, endpoint: Endpoint | None) -> None:
        """The agent has this endpoint from now on, or none."""
        known, link = self._endpoints.get(agent, (None, None))
        if known == endpoint:
            return
        if link is not None:
            del self._endpoints[agent]
            self.bus.spawn(link.close())
        if endpoint is not None:
            self._endpoints[agent] = (endpoint, self._link_to(endpoint))

    def _link_to(self, endpoint: Endpoint) -> Link:
        if endpoint.protocol != "mcp":
            return EndpointLink(self.http, endpoint.url)
        # The SDK takes longer to import than all else of the service.
        from data_pool.reaching.mcp_endpoint import McpLink

        return McpLink(endpoint.url, self.networks)

    def connect(self, agent: str, link: SocketLink) -> None:
        """The agent is called over this WebSocket from now on. Others that have it finish their calls and stand by."""
        self._sockets[agent] = [*self._others(agent, link.calls), link]
        link.calls.agents.add(agent)

    def disconnect(self, agent: str, calls: SocketCalls) -> None:
        """The agent is no longer on this WebSocket. If it is on others, the newest of them is used."""
        calls.agents.discard(agent)
        if others := self._others(agent, calls):
            self._sockets[agent] = others
        else:
            self._sockets.pop(agent, None)

    def _others(self, agent: str, calls: SocketCalls) -> list[SocketLink]:
        return [known for known in self._sockets.get(agent, ()) if known.calls is not calls]

    async def close(self) -> None:
        """End the sessions with endpoints."""
        await asyncio.gather(*(link.close() for _, link in self._endpoints.values()))
