"""The methods of data agents, which the pool answers: they register, send heartbeats and unregister."""

from pydantic_core import PydanticSerializationError

from pallas_bus.transport.ask import ask
from pallas_bus.transport.connection import Bus
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import ASK_POOL
from pallas_contracts.data_agents import PoolMethod, PoolRequest
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.turns import Principal
from pallas_jsonrpc.errors import UNREACHABLE, RpcError, invalid_params, refused
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
    found = refused(error, params)
    match error:
        case Unavailable(code="no_responders"):
            return RpcError(UNREACHABLE, "No data-agent pool is running.", found.data)
        case Unavailable():
            return RpcError(UNREACHABLE, "The data-agent pool does not answer. Try again shortly.", found.data)
        case _:
            return found
