"""Serve a JSON-RPC message or a batch: read it, handle each request, and make the response."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pallas_contracts.bounds import Json, JsonObject
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RpcError
from pallas_jsonrpc.messages import VERSION, Request, RequestId, read_message
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


def read_requests(data: bytes | str) -> list[Json] | Json:
    """The value in a body: one message, or a list of them (a batch).

    Raises:
        RpcError: it is not JSON, or a batch that is empty or too long.
    """
    try:
        value = loads(data)
    except Rejected as error:
        raise RpcError(PARSE_ERROR, f"Parse error: {error.message}") from None
    if isinstance(value, list) and not value:
        raise RpcError(INVALID_REQUEST, "Invalid Request: the batch is empty")
    if isinstance(value, list) and len(value) > MOST_IN_A_BATCH:
        raise RpcError(INVALID_REQUEST, f"Invalid Request: a batch has at most {MOST_IN_A_BATCH} requests")
    return value


async def serve(value: list[Json] | Json, handle: Handle) -> bytes | None:
    """Handle what `read_requests` returned, the requests of a batch at the same time. None: there is nothing to answer.

    When this is cancelled, all handlers are.
    """
    if not isinstance(value, list):
        response = await _serve_one(value, handle)
        return None if response is None else encode(response)
    responses = await asyncio.gather(*(_serve_one(each, handle) for each in value))
    answered = [response for response in responses if response is not None]
    return encode(answered) if answered else None


async def _serve_one(value: Json, handle: Handle) -> JsonObject | None:
    try:
        request = read_message(value)
    except RpcError as error:
        return unread(error)
    if not isinstance(request, Request):
        return unread(RpcError(INVALID_REQUEST, "Invalid Request: method must be a string"))
    try:
        answer = await handle(request)
    except RpcError as error:
        response = request.fail(error)
    except Exception:
        log.exception("a request failed", extra={"method": request.method[:64]})
        response = request.fail(RpcError(INTERNAL_ERROR, "Internal error"))
    else:
        response = request.succeed(answer.result, answer.meta)
    return None if request.is_notification else response


def unread(error: RpcError) -> JsonObject:
    """The response to a message that is no request. Its id is null, unless the error has it in `data.id`."""
    request_id: RequestId = (error.data or {}).get("id")
    return {"jsonrpc": VERSION, "error": {"code": error.code, "message": error.message}, "id": request_id}


def encode(value: object) -> bytes:
    """A JSON value as it is sent."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
