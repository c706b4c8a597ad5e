"""What becomes of an agent's answer: the result of the turn, or a failure if it does not fit its schema."""

import json

from data_pool.reaching.link import Reply
from pallas_contracts.data_agents import RPC_ERROR
from pallas_contracts.turns import Result
from pallas_executor.agent_runtime import Completed, Failed, Outcome
from pallas_jsonrpc.errors import RpcError
from pallas_schemas.schema import Schema

_MOST_FAULTS = 5


async def outcome_of(reply: Reply, schema: Schema, *, wrapped: bool) -> Outcome:
    """How the turn ends. With `wrapped`, callers over MCP get the answer as `{"result": answer}`.

    Raises:
        Unavailable: the answer cannot be checked now.
    """
    if reply.error is not None:
        return Completed(_error(reply.error))
    value = reply.value
    given = reply.content != () and isinstance(value, dict) and value.keys() == {"result"}
    structured = value if not wrapped or given else {"result": value}
    if not isinstance(structured, dict):
        return invalid_answer("it must be an object")
    if faults := await schema.faults(structured):
        return invalid_answer("it does not fit its schema: " + "; ".join(faults[:_MOST_FAULTS]))
    text = {"type": "text", "text": json.dumps(value, ensure_ascii=False)}
    return Completed(Result(content=reply.content or (text,), structured=structured))


def invalid_answer(reason: str) -> Failed:
    """The failure of a turn whose answer is malformed."""
    return Failed("invalid_answer", f"The agent's answer cannot be used: {reason}.")


def _error(error: RpcError) -> Result:
    return Result(content=({"type": "text", "text": error.message},), is_error=True, meta={RPC_ERROR: error.wire})
