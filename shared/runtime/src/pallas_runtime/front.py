"""Wraps an application: gives each request a correlation id, admits its sender and reads its body.

FastAPI reads the body before it runs dependencies. So the sender is admitted here, and the body of a sender that is not
is not read. Large or slow bodies are refused before they take memory.

Also what is the same for all such applications: callers in settings, the trace of a caller, errors as answers.
"""

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, get_args

from opentelemetry import context, propagate, trace
from opentelemetry.trace import SpanKind
from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pallas_contracts.errors import PallasError, Rejected
from pallas_contracts.turns import Principal
from pallas_runtime.http.bodies import TooLarge, read_body, replayed
from pallas_runtime.http.problems import problem, problem_of
from pallas_runtime.logs import log_context
from pallas_runtime.settings import variable
from pallas_runtime.telemetry import tracer, tracing

LARGEST_BODY = 256 * 1024
BODY_SECONDS = 10.0
RETRY_AFTER_SECONDS = 2
REQUEST_ID = "x-request-id"
_ID = re.compile(r"[!-~]{1,128}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest body of a request in bytes, and the seconds within which it has to arrive."""

    bytes: int = LARGEST_BODY
    seconds: float = field(default_factory=lambda: BODY_SECONDS)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request to serve. `state` is added to its state. `limit` None: its body is not read, and looks empty."""

    state: dict[str, Any] = field(default_factory=dict[str, Any])
    limit: Limit | None = field(default_factory=Limit)


type Admit = Callable[[Scope, str], Awaitable[Admitted | Response]]
"""Admits or refuses the request of a scope, which has this correlation id."""


class Front:
    """The ASGI application around `inner`."""

    def __init__(self, inner: ASGIApp, admit: Admit) -> None:
        self._inner = inner
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        correlation = correlation_of(Headers(scope=scope))

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = correlation
                headers.setdefault("cache-control", "no-store")
            await send(message)

        with log_context(correlation=correlation):
            await self._serve(scope, receive, send_named, correlation)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, correlation: str) -> None:
        try:
            admitted = await self._admit(scope, correlation)
        except PallasError as error:
            admitted = problem_of(error, retry_after=RETRY_AFTER_SECONDS)
        if isinstance(admitted, Response):
            await admitted(scope, receive, send)
            return
        body = b"" if admitted.limit is None else await _read(scope, receive, admitted.limit)
        if isinstance(body, Response):
            await body(scope, receive, send)
            return
        state: dict[str, Any] = {**scope.get("state", {}), **admitted.state}
        await self._inner({**scope, "state": state}, replayed(body, receive), send)


def correlation_of(headers: Headers) -> str:
    """The request id of the caller, else its trace id, else a new id."""
    given = headers.get(REQUEST_ID, "")
    if _ID.fullmatch(given):
        return given
    traced = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    return traced[1] if traced else uuid.uuid4().hex


async def _read(scope: Scope, receive: Receive, limit: Limit) -> bytes | Response:
    """The whole body, or the refusal."""
    try:
        async with asyncio.timeout(limit.seconds):
            return await read_body(scope, receive, limit.bytes)
    except TooLarge as error:
        return problem(413, error.message, error.code)
    except ClientDisconnect:
        return problem(400, "the body is incomplete", "incomplete")
    except TimeoutError:
        return problem(408, f"the body did not arrive within {limit.seconds:g} s", "too_slow")


_TYPES = frozenset[str](get_args(Principal.model_fields["type"].annotation))


def check_callers(field: str, words: Collection[str]) -> None:
    """Check the words of a setting.

    Raises:
        Rejected: a word names no callers (`bad_settings`).
    """
    for word in words:
        if word not in _TYPES and not word.startswith(("team:", "token:")):
            known = ", ".join(sorted(_TYPES))
            reason = f"{word!r} is none of {known}, team:ID and token:ID"
            raise Rejected(f"{variable(field)}: {reason}", code="bad_settings")


def is_among(caller: Principal, words: Collection[str]) -> bool:
    """Whether the words name this caller."""
    return caller.type in words or caller.label in words


class _Meta(BaseModel):
    traceparent: str
    tracestate: str = ""
    baggage: str = ""


class _Params(BaseModel):
    meta: _Meta = Field(alias="_meta")


class _Message(BaseModel):
    params: _Params


@contextmanager
def of_caller(headers: Iterable[tuple[bytes, bytes]], body: bytes | None, *, inside: bool = False) -> Generator[None]:
    """Continue the caller's trace inside the block: that of the message's `_meta`, or else of the request's headers.

    Without one a trace begins here (span `serve`), unless `body` is None: the message may still have one. The turn in
    the baggage is trusted only from a caller `inside` the platform.
    """
    if not tracing():
        yield
        return
    carrier = (_named_by(body) if body is not None else {}) or _text(headers)
    if not inside:
        carrier.pop("baggage", None)
    found = propagate.extract(carrier)
    if body is not None and not trace.get_current_span(found).get_span_context().is_valid:
        with tracer.start_as_current_span("serve", kind=SpanKind.SERVER):
            yield
        return
    token = context.attach(found)
    try:
        yield
    finally:
        context.detach(token)


def _named_by(body: bytes) -> dict[str, str]:
    """The trace in the `_meta` of a message, as headers."""
    try:
        return _Message.model_validate_json(body).params.meta.model_dump()
    except ValidationError:
        return {}


def _text(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
