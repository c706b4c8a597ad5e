"""HTTP errors: a JSON-RPC error for MCP clients, `{error, code}` for admins."""

import json
from typing import Any

from starlette.responses import Response

from pallas_contracts.errors import Denied, PallasError

INVALID_REQUEST = -32600
RETRY_AFTER_SECONDS = 1


def mcp_error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """An HTTP error for MCP clients."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    return Response(json.dumps(body), status, headers, media_type="application/json")


def unauthorized(error: Denied) -> Response:
    """401 with the contract's message. The exact reason is counted, but not disclosed."""
    challenge = "Bearer"
    if error.code != "missing":
        challenge += f' error="invalid_token", error_description="{error.message}"'
    return mcp_error(401, error.message, {"www-authenticate": challenge})


def unavailable(message: str) -> Response:
    """503 with `Retry-After`."""
    return mcp_error(503, message, {"retry-after": str(RETRY_AFTER_SECONDS)})


STATUS = {"rejected": 422, "not_found": 404, "denied": 403, "conflict": 409, "unavailable": 503, "internal": 500}


def problem(status: int, sentence: str, code: str, **facts: Any) -> Response:
    """An error of the admins' API."""
    return Response(json.dumps({"error": sentence, "code": code, **facts}), status, media_type="application/json")


def problem_of(error: PallasError) -> Response:
    """A `PallasError` as an error of the admins' API."""
    field = error.facts.get("field")
    answer = problem(STATUS[error.kind], error.message, error.code, **({"field": field} if field else {}))
    if error.kind == "unavailable":
        answer.headers["retry-after"] = str(RETRY_AFTER_SECONDS)
    return answer
