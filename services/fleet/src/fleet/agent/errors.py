"""Errors as the contract has them ("Error Response Format"), in MCP's tool errors.

They have no structured content: clients check it against the output schema, also that of an error.
"""

import json

from pallas_contracts.agents import JsonObject
from pallas_contracts.data_agents import RPC_ERROR
from pallas_contracts.errors import Conflict, NotFound, PallasError, Rejected
from pallas_contracts.turns import Result

ERROR_META = "pallas/error"

_KINDS: tuple[tuple[type[PallasError], str, int, int], ...] = (
    (Rejected, "bad_request", 400, -32602),
    (NotFound, "not_found", 404, -32602),
    (Conflict, "conflict", 409, -32000),
    (PallasError, "service_unavailable", 503, -32001),
)
"""Word, status and code over JSON-RPC of each kind of error."""


def error_object(error: PallasError) -> JsonObject:
    """`{error, message, details}`; `details.status` is the status that the contract names."""
    word, status, _ = _kind(error)
    facts = {"peer_status" if name == "status" else name: value for name, value in error.facts.items()}
    known = {name: value for name, value in facts.items() if value is not None}
    return {"error": word, "message": error.message, "details": {"status": status, "code": error.code} | known}


def error_result(error: PallasError) -> Result:
    """The tool error."""
    text = json.dumps(error_object(error), ensure_ascii=False, default=str)
    told: JsonObject = json.loads(text)
    rpc = {"code": _kind(error)[2], "message": error.message, "data": told}
    return Result(content=({"type": "text", "text": text},), is_error=True, meta={ERROR_META: told, RPC_ERROR: rpc})


def _kind(error: PallasError) -> tuple[str, int, int]:
    return next((word, status, code) for kind, word, status, code in _KINDS if isinstance(error, kind))
