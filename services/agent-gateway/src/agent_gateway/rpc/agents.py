"""The agents that a caller may use, by `agent_id`. One that it may not use is, to it, one that does not exist."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from agent_gateway.mcp.endpoints import Endpoint, Endpoints
from agent_gateway.mcp.server import AgentServer
from agent_gateway.metrics import Metrics
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import DATA_TEAM
from pallas_contracts.turns import Principal


@dataclass(frozen=True, slots=True)
class RpcCaller:
    """The caller of one HTTP request, at the address `url`.

    `team` is that of `/teams/{team}/rpc`, None at `/rpc`. `key` is the header `Idempotency-Key`, `signed` the digest of
    what was signed if the request is.
    """

    principal: Principal
    url: str
    team: str | None = None
    key: str | None = None
    signed: str | None = None


class UnknownAgent(Exception):
    """No agent has the id, or several have; `known` are ids that the caller can use instead."""

    def __init__(self, reason: str, known: Iterable[str]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.known = sorted(known)


@dataclass(frozen=True, slots=True)
class CallableAgents:
    """The agents of one caller."""

    endpoints: Endpoints
    metrics: Metrics
    caller: RpcCaller

    def find(self, agent_id: str) -> AgentServer:
        """The agent of the path's team; without one in the path, `team/agent`, or the only one of the name.

        A data agent does not count while a team has one: whoever may register data agents must not get its calls.

        Raises:
            UnknownAgent: there is none, or there are several.
        """
        team, slash, agent = agent_id.partition("/")
        if self.caller.team is not None:
            found = self._of(self.caller.team, agent_id)
        elif slash:
            found = self._of(team, agent)
        else:
            found = self._usable(self._named(agent_id).values())
        match found:
            case [server]:
                return server
            case []:
                raise UnknownAgent("unknown agent", self.by_id())
            case _:
                ids = (f"{server.definition.team}/{agent_id}" for server in found)
                raise UnknownAgent("several teams have an agent of this name", ids)

    def by_id(self) -> dict[str, AgentDefinition]:
        """The definitions of all agents, each by its shortest id."""
        team, caller = self.caller.team, self.caller.principal
        definitions = [endpoint.agent.definition for endpoint in self.endpoints.all()]
        usable = [each for each in definitions if team in (None, each.team) and each.allows(caller)]
        if team is not None:
            return {each.agent: each for each in usable}
        named = Counter(each.agent for each in usable if each.team in self._named(each.agent))
        return {
            each.agent
            if named[each.agent] == 1 and each.team in self._named(each.agent)
            else f"{each.team}/{each.agent}": each
            for each in usable
        }

    def _named(self, agent: str) -> dict[str, Endpoint]:
        """The endpoints for a name alone, by team."""
        found = self.endpoints.named(agent)
        if len(found) > 1:
            found.pop(DATA_TEAM, None)
        return found

    def _of(self, team: str, agent: str) -> list[AgentServer]:
        found = self.endpoints.find(team, agent)
        return self._usable([found]) if isinstance(found, Endpoint) else []

    def _usable(self, endpoints: Iterable[Endpoint]) -> list[AgentServer]:
        found = [endpoint.agent for endpoint in endpoints]
        usable = [server for server in found if server.definition.allows(self.caller.principal)]
        if not usable:
            for server in found:
                self.metrics.caller_refused(server.definition.team, server.definition.agent)
        return usable
