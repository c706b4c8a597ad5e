"""The methods of `/rpc`. The requests of a batch run at the same time, each as if it had been sent alone."""

from dataclasses import dataclass
from itertools import count
from typing import get_args

from pydantic_core import PydanticSerializationError

from agent_gateway.mcp.endpoints import Endpoints
from agent_gateway.metrics import Metrics
from agent_gateway.rpc.agents import CallableAgents, RpcCaller
from agent_gateway.rpc.answers import EXECUTE
from agent_gateway.rpc.discover import discover
from agent_gateway.rpc.execute import Execute
from pallas_bus.ask import ask
from pallas_bus.connection import Bus
from pallas_contracts.agents import JsonObject
from pallas_contracts.bounds import Json
from pallas_contracts.catalog import ASK_POOL, DATA_TEAM
from pallas_contracts.data_agents import PoolMethod, PoolRequest
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.turns import Principal
from pallas_jsonrpc.messages import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNREACHABLE,
    Request,
    RpcError,
    Unreadable,
    invalid_params,
    refused,
)
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


async def ask_pool(bus: Bus, caller: Principal, method: PoolMethod, params: JsonObject) -> Answer:
    """Ask the pool.

    Raises:
        RpcError: the pool refuses, or does not answer.
    """
    try:
        return Answer((await ask(bus, ASK_POOL, PoolRequest(principal=caller, method=method, params=params))).result)
    except PallasError as error:
        raise _error(error, params) from None
    except PydanticSerializationError:
        raise invalid_params("params", "they are nested too deeply") from None


def _error(error: PallasError, params: JsonObject) -> RpcError:
    found = refused(error, params)
    match error:
        case Unavailable(code="no_responders"):
            return RpcError(UNREACHABLE, "No data-agent pool is running.", found.data)
        case Unavailable():
            return RpcError(UNREACHABLE, "The data-agent pool does not answer. Try again shortly.", found.data)
        case _:
            return found
