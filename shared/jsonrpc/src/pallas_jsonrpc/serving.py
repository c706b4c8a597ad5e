"""Serve a JSON-RPC message or a batch: read it, handle each request, and make the response."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pallas_contracts.bounds import Json, JsonObject
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    VERSION,
    Request,
    Response,
    RpcError,
    Unreadable,
    read_message,
)
from pallas_jsonrpc.strict_json import loads

log = logging.getLogger(__name__)

MOST_IN_A_BATCH = 50


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with."""

    result: Json
    meta: JsonObject | None = None


type Handle = Callable[[Request], Awaitable[Answer]]
"""Handles one request. Raises `RpcError` to answer with an error."""

type Served = Callable[[str, int], None]
"""Is told the method (empty if it could not be read) and the code of each error; the code is 0 for a result."""


def read_requests(data: bytes | str) -> Json:
    """The value in a body: one message, or a list of them (a batch).

    Raises:
        Unreadable: it is not JSON, or a batch that is empty or too long.
    """
    try:
        value = loads(data)
    except Rejected as error:
        raise Unreadable(PARSE_ERROR, error.message) from None
    if isinstance(value, list) and not 1 <= len(value) <= MOST_IN_A_BATCH:
        raise Unreadable(INVALID_REQUEST, f"a batch must have 1 to {MOST_IN_A_BATCH} requests")
    return value


async def serve(value: Json, handle: Handle, served: Served = lambda _method, _code: None) -> bytes | None:
    """Handle what `read_requests` returned, the requests of a batch at the same time. None: there is nothing to answer.

    Handlers begin in the order of the batch. When this is cancelled, all of them are.
    """
    if not isinstance(value, list):
        return await _serve_one(value, handle, served)
    responses = await asyncio.gather(*(_serve_one(each, handle, served) for each in value))
    answered = [response for response in responses if response is not None]
    return b"[" + b",".join(answered) + b"]" if answered else None


async def _serve_one(value: Json, handle: Handle, served: Served) -> bytes | None:
    try:
        request = read_message(value)
        if isinstance(request, Response):
            raise Unreadable(INVALID_REQUEST, "a response was sent where a request must be", request.id)
    except Unreadable as error:
        served("", error.code)
        return encode(unread(error))
    try:
        response, code = await _handled(request, handle)
        encoded = encode(response)
    except Exception:
        log.exception("a request failed", extra={"method": request.method[:64]})
        code = INTERNAL_ERROR
        encoded = encode(request.fail(RpcError(code, "Internal error")))
    served(request.method, code)
    return None if request.is_notification else encoded


async def _handled(request: Request, handle: Handle) -> tuple[JsonObject, int]:
    """The response to a request, and the code of its error or 0."""
    try:
        answer = await handle(request)
    except RpcError as error:
        return request.fail(error), error.code
    return request.succeed(answer.result, answer.meta), 0


def unread(error: Unreadable) -> JsonObject:
    """The response to what is no request. It has an `id` always, as in JSON-RPC 2.0."""
    return {"jsonrpc": VERSION, "error": error.wire, "id": error.id}


def encode(value: object) -> bytes:
    """A JSON value as it is sent."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
