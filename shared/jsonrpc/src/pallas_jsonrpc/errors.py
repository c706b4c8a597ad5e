"""The errors of JSON-RPC 2.0 (section 5.1) and of the contract for data agents (`data-agent-pool.md`, section 6.2).

The text below a code is its meaning in docs/rpc.md.
"""

from typing import Literal

from pallas_contracts.bounds import JsonObject
from pallas_contracts.errors import Denied, NotFound, PallasError, Rejected, Unavailable

PARSE_ERROR = -32700
"""The body is no JSON; `data.reason` says where."""
INVALID_REQUEST = -32600
"""It is no request, or a batch that is empty or too long; `data.reason` says why."""
METHOD_NOT_FOUND = -32601
"""There is no such method, agent or function. `data.known` has names that the caller can use."""
INVALID_PARAMS = -32602
"""Parameters are missing or malformed, or the input does not fit: `data.faults` has each field with the reason."""
AGENT_ERROR = -32000
"""The agent's function failed. The message is its own."""
UNREACHABLE = -32001
"""The agent could not be reached or did not answer in time. Also: no data-agent pool is running."""
NOT_ALLOWED = -32003
"""The caller is unknown, or may not do this, such as register over another owner's agent."""
INTERNAL_ERROR = -32603
"""Something in Pallas went wrong."""

type RequestId = str | int | float | None


class RpcError(Exception):
    """An `error` object. `meta` is sent beside it."""

    def __init__(
        self, code: int, message: str, data: JsonObject | None = None, *, meta: JsonObject | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.meta = meta

    @property
    def wire(self) -> JsonObject:
        """The error object as it is sent."""
        error: JsonObject = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


class Unreadable(RpcError):
    """What arrived is no request. The message is that of the specification, `data.reason` says what is wrong with it.

    `id` is that of the message; None if it has none or it cannot be read.
    """

    def __init__(self, code: Literal[-32700, -32600], reason: str, request_id: RequestId = None) -> None:
        message = "Parse error" if code == PARSE_ERROR else "Invalid Request"
        super().__init__(code, message, {"reason": reason})
        self.id: RequestId = request_id
        self.reason = reason


def invalid_params(field: str, reason: str) -> RpcError:
    """The error for one parameter. The message names the field and the reason."""
    return RpcError(
        INVALID_PARAMS, f"Invalid params: {field}: {reason}", {"faults": [{"field": field, "reason": reason}]}
    )


_CODES = {Rejected: INVALID_PARAMS, NotFound: METHOD_NOT_FOUND, Denied: NOT_ALLOWED, Unavailable: INTERNAL_ERROR}


def refused(error: PallasError, params: JsonObject) -> RpcError:
    """The error for a method of the pool that was called with these parameters and refused."""
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    named = {"agent_id": params["agent_id"]} if isinstance(params.get("agent_id"), str) else {}
    facts = {"faults": error.facts["faults"]} if "faults" in error.facts else {}
    retry = {"retryable": True} if isinstance(error, Unavailable) else {}
    message = error.message if code is not None else "Internal error"
    return RpcError(code or INTERNAL_ERROR, message, {**named, "code": error.code, **facts, **retry})
