"""Data agents: programs that register their functions with the pool (`data-agent-pool.md`, sections 3 and 4).

A registered agent is an `AgentDefinition` of the team `data`. What only the pool needs to know about it is here.
"""

from typing import Literal

from pallas_contracts.agents import AgentDefinition
from pallas_contracts.bounds import JsonObject, Line, Moment, Seconds, Url
from pallas_contracts.ids import Token
from pallas_contracts.message import Message
from pallas_contracts.turns import Principal

type PoolMethod = Literal["server.register", "agent.heartbeat", "server.unregister"]

WRAPPED: JsonObject = {"pallas/wrapped": True}
"""The `meta` of a tool whose answers are no objects: MCP has them as `{"result": answer}`."""

RPC_ERROR = "pallas/rpc-error"
"""The key in the `meta` of a tool error under which the error object is that the agent answered."""


class Endpoint(Message):
    """An address at which an agent can be called: `agent.execute` by JSON-RPC, or `tools/call` by MCP."""

    url: Url
    protocol: Literal["json-rpc", "mcp"] = "json-rpc"


class DataAgent(Message):
    """A registration (KV bucket `data_agents`, key `{agent}`).

    Only its `owner` may replace or remove it. Without an `endpoint` the agent is called over the WebSocket on which it
    registered, if it `connects`; otherwise it cannot be called. `heartbeat_interval` is in seconds; without one its
    heartbeats are not monitored.
    """

    agent: Token
    owner: Principal
    definition: AgentDefinition
    endpoint: Endpoint | None = None
    connects: bool = False
    heartbeat_interval: Seconds | None = None
    registered_at: Moment


class Heartbeat(Message):
    """The last heartbeat of a data agent (KV bucket `heartbeats`, key `{agent}`). `status` is the agent's own word."""

    agent: Token
    status: Line
    at: Moment


class PoolRequest(Message):
    """A call of one of the pool's methods by an identified caller. `params` are as in the contract, unchecked.

    An `operator` may unregister every agent, whoever owns it.
    """

    principal: Principal
    operator: bool = False
    method: PoolMethod
    params: JsonObject


class PoolAnswer(Message):
    """The `result` of a `PoolRequest`.

    Errors are `Rejected` (`invalid_params`; fact `faults`: `[{field, reason}]`), `NotFound` (`unknown_agent`), and
    `Denied` (`not_owner`, `not_registrar`, `too_many_agents`).
    """

    result: JsonObject
