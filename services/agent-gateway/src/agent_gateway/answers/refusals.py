"""HTTP errors for requests that are not served."""

import json
from collections.abc import Mapping

from starlette.types import Send

from pallas_contracts.auth import AUTH_FAILURES
from pallas_contracts.bounds import JsonObject
from pallas_contracts.errors import Denied, PallasError
from pallas_jsonrpc.errors import INVALID_REQUEST, NOT_ALLOWED, UNREACHABLE, Unreadable

type Headers = tuple[tuple[bytes, bytes], ...]

_RPC_CODES: Mapping[int, int] = {401: NOT_ALLOWED, 403: NOT_ALLOWED, 503: UNREACHABLE}
"""The code of a JSON-RPC error at `/rpc`, by HTTP status. Of all others, and at the MCP endpoints: -32600."""


async def refuse(send: Send, status: int, message: str, headers: Headers = (), *, rpc: bool = False) -> None:
    """Send an HTTP error with a JSON-RPC error as its body. `rpc`: the request was sent to `/rpc`."""
    code = _RPC_CODES.get(status, INVALID_REQUEST) if rpc else INVALID_REQUEST
    await _send(send, status, {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, headers)


async def refuse_unreadable(send: Send, error: Unreadable) -> None:
    """Refuse a body that is no message; the reason is in the message and in the data of the error."""
    wire = {**error.wire, "message": f"{error.message}: {error.reason}"}
    await _send(send, 400, {"jsonrpc": "2.0", "id": None, "error": wire})


async def _send(send: Send, status: int, error: JsonObject, headers: Headers = ()) -> None:
    body = json.dumps(error).encode()
    start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


async def refuse_caller(send: Send, error: PallasError, *, rpc: bool = False) -> None:
    """Refuse a caller: 401 for a bad or missing bearer, 403 when not allowed, 503 when the bearer cannot be checked."""
    match error:
        case Denied(code="not_allowed"):
            await refuse(send, 403, error.message, rpc=rpc)
        case Denied(code="missing" | "signature"):
            await refuse(send, 401, error.message, ((b"www-authenticate", b"Bearer"),), rpc=rpc)
        case Denied():
            challenge = f'Bearer error="invalid_token", error_description="{AUTH_FAILURES.get(error.code, "")}"'
            await refuse(send, 401, error.message, ((b"www-authenticate", challenge.encode()),), rpc=rpc)
        case _:
            message = "The bearer cannot be checked right now. Try again shortly."
            await refuse(send, 503, message, ((b"retry-after", b"1"),), rpc=rpc)
