"""Has the bearer of each request resolved. Answers are not kept."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.datastructures import Headers

from library_search.metrics import Metrics
from library_search.model import Readable
from pallas_contracts.auth import AUTH_FAILURES, LONGEST_BEARER, ResolveBearer, Resolved
from pallas_contracts.errors import Denied

_USES_UP = "tools/call"

type Resolve = Callable[[ResolveBearer], Awaitable[Resolved]]


class Bearers:
    """Resolves bearers.

    Counts the refusals that are made here. The resolver counts its own.
    """

    def __init__(self, resolve: Resolve, metrics: Metrics) -> None:
        self._resolve = resolve
        self._failures = metrics.auth_failures

    def bearer_of(self, headers: Headers) -> str:
        """The bearer of a request.

        Raises:
            Denied: it is missing or malformed.
        """
        given = headers.getlist("authorization")
        scheme, _, bearer = given[0].strip().partition(" ") if given else ("", "", "")
        bearer = bearer.strip()
        if scheme.lower() != "bearer" or not bearer:
            raise self._refused("missing")
        if len(given) > 1 or len(bearer) > LONGEST_BEARER:
            raise self._refused("malformed")
        return bearer

    async def resolve(self, bearer: str, body: bytes) -> tuple[str, Readable]:
        """The caller, and the libraries that it may read. A tool call uses a per-turn token up.

        Raises:
            Denied: the bearer is refused; the message is the contract's.
            PallasError: the bearer cannot be checked right now.
        """
        question = ResolveBearer(bearer=bearer, uses_up=calls_a_tool(body), identities=True)
        resolved = await self._resolve(question)
        who = resolved.principal
        return f"{who.type} {who.id} {who.name}", {uid: resolved.identities.get(uid) for uid in resolved.libraries}

    def _refused(self, reason: str) -> Denied:
        self._failures.labels(reason).inc()
        return Denied(AUTH_FAILURES[reason], code=reason)


def calls_a_tool(body: bytes) -> bool:
    """Whether a JSON-RPC message may be read as a tool call, even if it names its method twice."""
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or ("method", _USES_UP) in pairs

    try:
        json.loads(body, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return found
    return found
