"""Requests and responses as they are on the wire."""

from dataclasses import dataclass

from pallas_contracts.bounds import Json, JsonObject
from pallas_jsonrpc.errors import INVALID_PARAMS, INVALID_REQUEST, RpcError

VERSION = "2.0"

type RequestId = str | int | float | None


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
                raise RpcError(INVALID_PARAMS, "Invalid params: give the parameters by name, in an object.")
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
        RpcError: it is none (-32600); `data.id` is its id if that can be read.
    """
    if not isinstance(value, dict):
        raise _invalid("it must be an object", None)
    message: JsonObject = value
    request_id: RequestId = _id_of(message)
    strict, numbered = "jsonrpc" in message, "id" in message
    if strict and message["jsonrpc"] != VERSION:
        raise _invalid('jsonrpc must be "2.0"', request_id)
    if "method" not in message and ("result" in message or "error" in message):
        return _response(message, request_id, numbered=numbered)
    method = message.get("method")
    params: Json = message.get("params", {})
    if not isinstance(method, str):
        raise _invalid("method must be a string", request_id)
    if not isinstance(params, dict | list):
        raise _invalid("params must be an object", request_id)
    return Request(method, params, request_id, strict, numbered)


def _response(message: JsonObject, request_id: RequestId, *, numbered: bool) -> Response:
    if "error" not in message:
        return Response(request_id, numbered, result=message["result"])
    if "result" in message:
        raise _invalid("a response has either a result or an error", request_id)
    match message["error"]:
        case {"code": int() as code, "message": str() as text} as error if not isinstance(code, bool):
            data: Json = error.get("data")
            known: JsonObject | None = data if data is None or isinstance(data, dict) else {"data": data}
            return Response(request_id, numbered, error=RpcError(code, text, known))
        case _:
            raise _invalid("error must be an object with a code (integer) and a message (string)", request_id)


def _id_of(message: JsonObject) -> RequestId:
    given = message.get("id")
    if isinstance(given, bool) or not (given is None or isinstance(given, str | int | float)):
        raise _invalid("id must be a string, a number or null", None)
    return given


def _invalid(reason: str, request_id: RequestId) -> RpcError:
    return RpcError(INVALID_REQUEST, f"Invalid Request: {reason}", {"id": request_id})
