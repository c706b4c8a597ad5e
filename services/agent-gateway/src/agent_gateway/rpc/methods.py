"""The methods of `/rpc`. The requests of a batch run at the same time, each as if it had been sent alone."""

from dataclasses import dataclass
from itertools import count
from typing import get_args

from agent_gateway.mcp.endpoints import Endpoints
from agent_gateway.metrics import Metrics
from agent_gateway.rpc.agents import CallableAgents
from agent_gateway.rpc.ask_pool import ask_pool
from agent_gateway.rpc.caller import RpcCaller
from agent_gateway.rpc.discover import discover
from agent_gateway.rpc.execute import Execute
from agent_gateway.rpc.read_execution import EXECUTE
from pallas_contracts.bounds import Json
from pallas_contracts.catalog import DATA_TEAM
from pallas_contracts.data_agents import PoolMethod
from pallas_jsonrpc.errors import INVALID_REQUEST, METHOD_NOT_FOUND, RpcError, Unreadable
from pallas_jsonrpc.messages import Request
from pallas_jsonrpc.serving import Answer, encode, read_requests, serve, unread
from pallas_jsonrpc.strict_json import read_apart

DISCOVER = "rpc.discover"
POOL_METHODS: dict[str, PoolMethod] = {method: method for method in get_args(PoolMethod.__value__)}
METHODS = (EXECUTE, DISCOVER, *POOL_METHODS)


@dataclass(frozen=True, slots=True)
class Methods:
    """Serves the bodies of requests."""

    endpoints: Endpoints
    metrics: Metrics

    async def serve(self, body: bytes, caller: RpcCaller) -> bytes | None:
        """The answer to a body; None if it has notifications only. When this is cancelled, the caller has left."""
        try:
            value = await _read(body, caller)
        except Unreadable as error:
            self._served("", error.code)
            return encode(unread(error))
        agents = CallableAgents(self.endpoints, self.metrics, caller)
        execute = Execute(self.endpoints.platform, agents, caller)
        places = count()

        async def handle(request: Request) -> Answer:
            place = next(places)
            match request.method:
                case "agent.execute":
                    return await execute(request.named, place)
                case "rpc.discover":
                    return Answer(discover(agents))
                case method if (asked := POOL_METHODS.get(method)) and caller.team in (None, DATA_TEAM):
                    return await ask_pool(self.endpoints.platform.bus, caller.principal, asked, request.named)
                case _:
                    raise RpcError(METHOD_NOT_FOUND, "Method not found")

        return await serve(value, handle, self._served)

    def _served(self, method: str, code: int) -> None:
        self.metrics.rpc_requests.labels(method if method in METHODS else "unknown", code or "ok").inc()


async def _read(body: bytes, caller: RpcCaller) -> Json:
    """The message or batch in a body.

    Raises:
        Unreadable: it is none, or one that this caller may not send.
    """
    value = await read_apart(read_requests, body)
    if isinstance(value, list) and caller.key is not None:
        raise Unreadable(INVALID_REQUEST, "in a batch, send meta.idempotency_key instead of the header Idempotency-Key")
    if caller.principal.type == "turn" and isinstance(value, list):
        executions = [each for each in value if isinstance(each, dict) and each.get("method") == EXECUTE]
        if len(executions) > 1:
            raise Unreadable(INVALID_REQUEST, f"a per-turn token is valid for one {EXECUTE}")
    return value
