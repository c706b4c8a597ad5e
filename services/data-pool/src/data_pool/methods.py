"""The methods that agents call: `server.register`, `agent.heartbeat` and `server.unregister`.

They come over WebSockets, and by the question `pool.ask` from gateways, which forward what is posted to them.
"""

import logging
from dataclasses import dataclass

from data_pool.hosting import HostAgents
from data_pool.metrics import Metrics
from data_pool.reaching.socket_calls import SocketLink
from data_pool.registering.registration import InvalidRegistration, invalid
from data_pool.registering.registrations import Registrations
from pallas_contracts.bounds import LONGEST_LINE, JsonObject
from pallas_contracts.catalog import DATA_TEAM
from pallas_contracts.data_agents import DataAgent, PoolAnswer, PoolRequest
from pallas_contracts.errors import NotFound, Rejected, Unavailable
from pallas_contracts.ids import is_token
from pallas_contracts.turns import Principal

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentMethods:
    """The methods, for identified callers."""

    registrations: Registrations
    hosting: HostAgents
    metrics: Metrics
    gateway_url: str | None

    async def ask(self, request: PoolRequest) -> PoolAnswer:
        """Answer the question of a gateway (see `PoolAnswer` for the errors)."""
        if request.operator and request.method == "server.unregister":
            return PoolAnswer(result=await self._remove(_agent_id(request.params), None))
        return PoolAnswer(result=await self.call(request.principal, request.method, request.params, None))

    async def call(self, caller: Principal, method: str, params: JsonObject, link: SocketLink | None) -> JsonObject:
        """Call a method; returns its `result`. An agent that calls over a WebSocket can be called over the `link`.

        Raises:
            Rejected: a parameter is wrong (`invalid_params`, with `faults`).
            NotFound: there is no such agent (`unknown_agent`) or method (`unknown_method`).
            Denied: the caller may not do this (`not_registrar`, `not_owner`).
            Unavailable: the broker does not answer.
        """
        methods = {
            "server.register": self._register,
            "agent.heartbeat": self._heartbeat,
            "server.unregister": self._unregister,
        }
        if method not in methods:
            raise NotFound(f"There is no method {method[:64]!r}.", code="unknown_method")
        try:
            return await methods[method](caller, params, link)
        except InvalidRegistration:
            raise
        except Rejected as error:
            log.warning("the broker refused what a method needs", extra={"method": method, "reason": error.message})
            raise Unavailable("This cannot be done right now. Try again shortly.") from error

    async def _register(self, caller: Principal, params: JsonObject, link: SocketLink | None) -> JsonObject:
        one_at_a_time = link is not None and not link.numbered
        entry, warnings = await self.registrations.register(
            caller, params, connects=link is not None, one_at_a_time=one_at_a_time
        )
        agent, last = entry.agent, self.hosting.heartbeats.last(entry.agent)
        if link is not None:
            self.hosting.connect(agent, link)
        if entry.heartbeat_interval is not None or (last is not None and last.status != "active"):
            await self._beat(entry, "active", link)
        gateway = self.gateway_url.rstrip("/") if self.gateway_url else None
        return {
            "agent_id": agent,
            "registered": True,
            "team": DATA_TEAM,
            "tools": [tool.name for tool in entry.definition.tools],
            "heartbeat_interval": entry.heartbeat_interval,
            **({"mcp": f"{gateway}/teams/{DATA_TEAM}/mcp/{agent}"} if gateway else {}),
            **({"warnings": list(warnings)} if warnings else {}),
        }

    async def _heartbeat(self, caller: Principal, params: JsonObject, link: SocketLink | None) -> JsonObject:
        agent, status = _agent_id(params), params.get("status")
        if not isinstance(status, str) or not 1 <= len(status) <= LONGEST_LINE:
            raise _invalid("status", f"must be a text of 1 to {LONGEST_LINE} characters")
        entry = await self.registrations.owned(caller, agent)
        self.metrics.heartbeats.inc()
        await self._beat(entry, status, link)
        return {"agent_id": agent, "status": status, "next_within": entry.heartbeat_interval}

    async def _beat(self, entry: DataAgent, status: str, link: SocketLink | None) -> None:
        """Take a heartbeat. Over a WebSocket it needs no broker: it came to the replica that reports the agent."""
        try:
            await self.hosting.heard(entry, status, shared=link is None or entry.endpoint is not None)
        except Unavailable:
            if link is None:
                raise

    async def _unregister(self, caller: Principal, params: JsonObject, link: SocketLink | None) -> JsonObject:
        agent = _agent_id(params)
        await self.registrations.owned(caller, agent)
        return await self._remove(agent, link)

    async def _remove(self, agent: str, link: SocketLink | None) -> JsonObject:
        await self.registrations.remove(agent)
        log.info("unregistered", extra={"team": DATA_TEAM, "agent": agent})
        if link is not None:
            self.hosting.disconnect(agent, link.calls)
        return {"agent_id": agent, "unregistered": True}


def _agent_id(params: JsonObject) -> str:
    agent = params.get("agent_id")
    if not isinstance(agent, str) or not is_token(agent):
        raise _invalid("agent_id", "must be 1 to 64 characters of a-z, 0-9, '_' and '-'")
    return agent


def _invalid(field: str, reason: str) -> InvalidRegistration:
    return invalid([{"field": field, "reason": reason}])
