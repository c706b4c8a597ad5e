"""Requests and responses as they are on the wire."""

from dataclasses import dataclass
from typing import Literal

from pallas_contracts.bounds import Json, JsonObject
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


VERSION = "2.0"


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `strict`: it is JSON-RPC 2.0, otherwise the dialect. `numbered`: it has an `id`, which may be null."""

    method: str
    params: JsonObject | list[Json]
    id: RequestId
    strict: bool
    numbered: bool

    @property
    def is_notification(self) -> bool:
        """Whether it is not answered."""
        return self.strict and not self.numbered

    @property
    def named(self) -> JsonObject:
        """The parameters by name.

        Raises:
            RpcError: they are given by position.
        """
        if isinstance(self.params, list):
            if self.params:
                raise invalid_params("params", "must be an object with the parameters by name")
            return {}
        return self.params

    def succeed(self, result: Json, meta: JsonObject | None = None) -> JsonObject:
        """The response with a result."""
        return self._response({"result": result}, meta)

    def fail(self, error: RpcError) -> JsonObject:
        """The response with an error."""
        return self._response({"error": error.wire}, error.meta)

    def _response(self, body: JsonObject, meta: JsonObject | None) -> JsonObject:
        return {
            **({"jsonrpc": VERSION} if self.strict else {}),
            **body,
            **({"meta": meta} if meta is not None else {}),
            **({"id": self.id} if self.numbered else {}),
        }


@dataclass(frozen=True, slots=True)
class Response:
    """A response: a `result`, or an `error`. `numbered`: it has an `id`."""

    id: RequestId
    numbered: bool
    result: Json = None
    error: RpcError | None = None


def read_message(value: Json) -> Request | Response:
    """The message that a JSON value is.

    Raises:
        Unreadable: it is none (-32600).
    """
    if not isinstance(value, dict):
        raise Unreadable(INVALID_REQUEST, "a message must be an object")
    message: JsonObject = value
    request_id = _id_of(message)
    strict, numbered = "jsonrpc" in message, "id" in message
    if strict and message["jsonrpc"] != VERSION:
        raise Unreadable(INVALID_REQUEST, 'jsonrpc must be "2.0"', request_id)
    if "method" not in message and ("result" in message or "error" in message):
        return _response(message, request_id, numbered=numbered)
    method: Json = message.get("method")
    params: Json = message.get("params", {})
    if not isinstance(method, str):
        raise Unreadable(INVALID_REQUEST, "method must be a string", request_id)
    if not isinstance(params, dict | list):
        raise Unreadable(INVALID_REQUEST, "params must be an object", request_id)
    return Request(method, params, request_id, strict, numbered)


def _response(message: JsonObject, request_id: RequestId, *, numbered: bool) -> Response:
    if "error" not in message:
        return Response(request_id, numbered, result=message["result"])
    if "result" in message:
        raise Unreadable(INVALID_REQUEST, "a response has either a result or an error", request_id)
    match message["error"]:
        case {"code": int() as code, "message": str() as text} as error if not isinstance(code, bool):
            data: Json = error.get("data")
            known: JsonObject | None = data if data is None or isinstance(data, dict) else {"data": data}
            return Response(request_id, numbered, error=RpcError(code, text, known))
        case _:
            reason = "error must be an object with a code (integer) and a message (string)"
            raise Unreadable(INVALID_REQUEST, reason, request_id)


def _id_of(message: JsonObject) -> RequestId:
    given = message.get("id")
    if isinstance(given, bool) or not (given is None or isinstance(given, str | int | float)):
        raise Unreadable(INVALID_REQUEST, "id must be a string, a number or null")
    return given
