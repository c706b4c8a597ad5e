"""What a request is: who sends it, what its headers say, and its body."""

from dataclasses import dataclass
from urllib.parse import unquote

from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request

from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import loads, read_apart
from pipelines.http.answers import Refused
from pipelines.storing.namespaces import Caller

AGENT, REQUEST_ID, OTHER_REQUEST_ID = "X-Constellation-Agent", "X-Constellation-Request-ID", "X-Request-ID"
EXECUTION_ID = "X-Constellation-Execution-ID"
KEY = "Idempotency-Key"

_LONGEST = 256
_SCOPE = "pallas.pipelines"


@dataclass(frozen=True, slots=True)
class Marks:
    """The headers that attribute a request (RFC-018, "Agent Identification"), None where they are not sent.

    `key` is the caller's idempotency key: an execution that is asked for again with it is joined.
    """

    agent: str | None = None
    request_id: str | None = None
    key: str | None = None


NO_MARKS = Marks()


@dataclass(frozen=True, slots=True)
class Received:
    """A request that was admitted."""

    caller: Caller
    marks: Marks
    body: bytes


def read_marks(headers: Headers) -> Marks:
    """The headers that attribute a request.

    Raises:
        Refused: one is no printable text of at most 256 characters, or is sent twice.
    """
    request_id = _mark(headers, REQUEST_ID)
    request_id = request_id if request_id is not None else _mark(headers, OTHER_REQUEST_ID)
    return Marks(_mark(headers, AGENT), request_id, _mark(headers, KEY))


def _mark(headers: Headers, name: str) -> str | None:
    match headers.getlist(name):
        case []:
            return None
        case [given] if 1 <= len(given) <= _LONGEST and given.isascii() and given.isprintable():
            return given
        case _:
            message = f"The header {name} must be one text of 1 to {_LONGEST} printable ASCII characters."
            raise Refused(400, "InvalidHeader", message)


def put_received(request: Request, received: Received) -> None:
    """Keep what is known of a request."""
    request.scope[_SCOPE] = received


def received_of(request: Request) -> Received:
    """What is known of a request."""
    found = request.scope[_SCOPE]
    assert isinstance(found, Received)
    return found


def caller_of(request: Request) -> Caller:
    """Who sends a request."""
    return received_of(request).caller


def part_of(request: Request, name: str) -> str:
    """A part of the path. It may hold a slash, which is percent-encoded in the path."""
    return unquote(request.path_params[name])


def natural(text: str) -> int | None:
    """The number that a text is, at most nine digits; None if it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None


async def body_of[M: BaseModel](request: Request, model: type[M]) -> M:
    """The body of a request; one without a body counts as `{}`.

    Raises:
        Refused: it is no JSON, or not of this shape.
    """
    try:
        return model.model_validate(await read_apart(loads, received_of(request).body or b"{}"))
    except Rejected as error:
        raise Refused(400, "InvalidRequest", f"The body is not JSON: {error.message}") from None
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"])) or "the body"
        raise Refused(400, "InvalidRequest", f"{place}: {fault['msg']}") from None
