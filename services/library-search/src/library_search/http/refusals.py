"""HTTP errors for MCP clients, with a JSON-RPC error as their body."""

import json

from starlette.responses import Response

from pallas_contracts.errors import Denied

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
