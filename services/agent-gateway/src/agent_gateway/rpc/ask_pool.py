"""The methods of data agents, which the pool answers: they register, send heartbeats and unregister."""

from pydantic_core import PydanticSerializationError

from pallas_bus.transport.ask import ask
from pallas_bus.transport.connection import Bus
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import ASK_POOL
from pallas_contracts.data_agents import PoolMethod, PoolRequest
from pallas_contracts.errors import Denied, NotFound, PallasError, Rejected, Unavailable
from pallas_contracts.turns import Principal
from pallas_jsonrpc.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_ALLOWED,
    UNREACHABLE,
    RpcError,
    invalid_params,
)
from pallas_jsonrpc.serving import Answer


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
    agent_id = params.get("agent_id")
    data: JsonObject = {"agent_id": agent_id if isinstance(agent_id, str) else None, "code": error.code}
    match error:
        case Unavailable(code="no_responders"):
            return RpcError(UNREACHABLE, "No data-agent pool is running.", data)
        case Unavailable():
            return RpcError(UNREACHABLE, "The data-agent pool does not answer. Try again shortly.", data)
        case Rejected():
            return RpcError(INVALID_PARAMS, error.message, data | error.facts)
        case NotFound():
            return RpcError(METHOD_NOT_FOUND, error.message, data | error.facts)
        case Denied():
            return RpcError(NOT_ALLOWED, error.message, data | error.facts)
        case _:
            return RpcError(INTERNAL_ERROR, "Internal error", data)
