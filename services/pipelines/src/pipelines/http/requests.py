"""What a request is: who sends it and how often, what its headers say, and its body."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote

from cachetools import LRUCache
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request

from pallas_contracts.errors import Denied, PallasError, Rejected
from pallas_contracts.turns import API_KEY_ID, Principal
from pallas_jsonrpc.strict_json import loads, read_apart
from pallas_runtime.http.bearers import Bearers, bearer_of
from pipelines.http.answers import Refused, refused
from pipelines.storing.namespaces import Caller, user_of
from pipelines.storing.scopes import Scope, Scopes

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


@dataclass(frozen=True, slots=True)
class Identified:
    """A caller, and whom its rate is counted for: the owner of the key or the bearer, or the address.

    A caller without a bearer is who its header X-Constellation-Agent says; the header of one with an API key says which
    of those that have the key it is.
    """

    caller: Caller
    source: Principal


@dataclass(frozen=True)
class Identities:
    """Identifies callers. With API keys a caller needs a key or a bearer."""

    scopes: Scopes
    bearers: Bearers

    async def identify(
        self, headers: Iterable[tuple[bytes, bytes]], address: str, agent: str | None, *, uses_up: bool
    ) -> Identified:
        """The caller of a request. `uses_up`: the bearer of a turn is used up by it.

        Raises:
            Refused: the caller's bearer is missing or not accepted (401), or cannot be checked now (503).
        """
        try:
            principal = await self._principal(bearer_of(headers), uses_up=uses_up) or Principal(id=address)
        except Denied as error:
            raise Refused(401, "Unauthorized", error.message) from None
        except PallasError as error:
            raise refused(error) from None
        scope = self.scopes.scope_of(principal)
        if scope is Scope.NONE and principal.type == "peer" and self._checks:
            raise Refused(401, "Unauthorized", "This needs an API key or a bearer token.")
        known = principal
        if agent is not None and principal.type == "peer":
            known = Caller(principal, agent).identity
        elif agent is not None and principal.id.startswith(API_KEY_ID):
            known = principal.model_copy(update={"user": user_of(agent)})
        return Identified(Caller(known, agent, scope), principal)

    async def _principal(self, bearer: str | None, *, uses_up: bool) -> Principal | None:
        if bearer and (known := self.scopes.principal_of(bearer)) is not None:
            return known
        if bearer is not None and self.scopes.has_keys and self.bearers.mode == "off":
            raise Denied("The API key is not accepted.", code="invalid")
        checked = self.bearers.check_bearer(bearer)
        return await self.bearers.identify_caller(checked, uses_up=uses_up) if checked is not None else None

    @property
    def _checks(self) -> bool:
        return self.scopes.has_keys or self.bearers.mode != "off"


AGENTS_OF_A_CALLER = 50
"""Agents of one caller that can use all of their rate at once (RFC-018, "Multi-Agent Team Scenario")."""

_MOST_BUCKETS = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


@dataclass
class Rates:
    """`per_minute` requests of an agent, and `burst` at once; the caller has that of `AGENTS_OF_A_CALLER` agents.

    Only the last 10,000 buckets are kept: one that was not used for long is full.
    """

    per_minute: float
    burst: int
    clock: Callable[[], float] = time.monotonic
    _buckets: LRUCache[tuple[str, str | None], _Bucket] = field(default_factory=lambda: LRUCache(_MOST_BUCKETS))

    def admit(self, caller: Principal, agent: str | None) -> int | None:
        """Count a request; or the seconds after which it would be admitted, at least 1. Then it does not count."""
        mine = self._filled((caller.token, agent or ""), 1)
        all_of_caller = self._filled((caller.token, None), AGENTS_OF_A_CALLER)
        waits = (_missing(mine) * 60 / self.per_minute, _missing(all_of_caller) * 60 / self._of_caller)
        if max(waits) > 0:
            return max(1, math.ceil(max(waits)))
        mine.left -= 1
        all_of_caller.left -= 1
        return None

    @property
    def _of_caller(self) -> float:
        return self.per_minute * AGENTS_OF_A_CALLER

    def _filled(self, key: tuple[str, str | None], times: int) -> _Bucket:
        """The bucket with what has run into it meanwhile."""
        now, most = self.clock(), float(self.burst * times)
        bucket = self._buckets[key] = self._buckets.get(key) or _Bucket(most, now)
        bucket.left = min(most, bucket.left + (now - bucket.at) * self.per_minute * times / 60)
        bucket.at = now
        return bucket


def _missing(bucket: _Bucket) -> float:
    return max(0.0, 1 - bucket.left)
