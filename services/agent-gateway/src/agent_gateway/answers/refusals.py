"""HTTP errors for requests that are not served."""

import json

from starlette.types import Send

from pallas_contracts.auth import AUTH_FAILURES
from pallas_contracts.errors import Denied, PallasError


async def refuse(send: Send, status: int, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    """Send an HTTP error with a JSON-RPC error as its body, as MCP clients expect."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}
    body = json.dumps(error).encode()
    start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


async def refuse_caller(send: Send, error: PallasError) -> None:
    """Refuse a caller: 401 for a bad or missing bearer, 403 when not allowed, 503 when the bearer cannot be checked."""
    match error:
        case Denied(code="not_allowed"):
            await refuse(send, 403, error.message)
        case Denied(code="missing"):
            await refuse(send, 401, error.message, ((b"www-authenticate", b"Bearer"),))
        case Denied():
            challenge = f'Bearer error="invalid_token", error_description="{AUTH_FAILURES.get(error.code, "")}"'
            await refuse(send, 401, error.message, ((b"www-authenticate", challenge.encode()),))
        case _:
            message = "The bearer cannot be checked right now. Try again shortly."
            await refuse(send, 503, message, ((b"retry-after", b"1"),))
