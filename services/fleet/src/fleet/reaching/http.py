"""Requests to Coder and to the terminals behind it.

The session token goes to Coder's own host and to the hosts of its apps. No redirect is followed, no proxy of the
environment is used, and no cookie is kept.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2
from pydantic import SecretStr

from fleet.reaching.hearing import Hearing
from fleet.reaching.peer import Peer, explain
from pallas_contracts.errors import Rejected, Unavailable

_AGAIN = frozenset({502, 503, 504})
_CERTAIN = frozenset({"certificate", "address", "timeout"})
"""What a second try does not change, or has no time for."""

_SHORTEST_PAUSE = 0.1
_LONGEST_DIGITS = 6

_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "pallas-fleet"}
_IDLE_SECONDS = 4.0
_SILENT_SECONDS = 300.0
"""Seconds in which a stream of events says something, or is opened again."""

_KEEPALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
]
"""A stream of events may be silent for long; this notices that its other end is gone."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of requests: seconds for one try, seconds for a call with all its tries, bytes of an answer.

    `pauses` are the seconds before the second try of a GET, and before the third.
    """

    request: float = 10.0
    call: float = 12.0
    answer: int = 16 * 1024 * 1024
    pauses: tuple[float, ...] = (0.1, 0.4)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its whole body. `retry_after`: it refuses more requests (429) for so many seconds."""

    status: int
    kind: str
    body: bytes = field(repr=False)
    retry_after: int | None = None


class Http:
    """The client. `coder` is the base URL of Coder; requests to hosts that are not Coder's have no token.

    `ca` are certificates (PEM) that are trusted besides the usual ones.

    `count` gets each request: `coder` or `terminal`, and the class of its status (`2xx`) or why it has none.

    Raises:
        Rejected: the URL, the token or the certificates cannot be used (`field`).
    """

    def __init__(
        self,
        coder: str | None,
        token: SecretStr | None,
        *,
        ca: str | None = None,
        limits: Limits | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        count: Callable[[str, str], None] = lambda peer, result: None,
    ) -> None:
        self._count = count
        self.base = _base(coder) if coder else None
        self.limits = limits or Limits()
        self.has_token = token is not None
        self._token = _checked(token) if token is not None else None
        self._apps: re.Pattern[str] | None = None
        pool = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=_IDLE_SECONDS)
        trusted = _trusted(ca)
        self._client = self._over(
            transport
            or httpx2.AsyncHTTPTransport(verify=trusted, trust_env=False, limits=pool, socket_options=_KEEPALIVE)
        )
        self._hearing = self._over(transport or Hearing(trusted, _KEEPALIVE))

    def _over(self, transport: httpx2.AsyncBaseTransport) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=transport,
            headers=_HEADERS,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            timeout=self.limits.request,
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        await self._hearing.aclose()

    def trust_apps(self, wildcard: str) -> None:
        """Coder serves apps at hosts of this form (`*.apps.example.com`, perhaps with a port)."""
        pattern = re.escape(wildcard.lower()).replace(r"\*", "[a-z0-9-]+", 1)
        self._apps = re.compile(pattern) if "*" in wildcard and "." in wildcard else None

    async def send(
        self,
        peer: Peer,
        method: str,
        url: httpx2.URL,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Any = None,
    ) -> Answer:
        """Send a request and read its answer, whatever its status. A GET is tried again while nobody answers it.

        A request that is refused for now (429) had no effect. It is sent again when the answer says, if there is time.

        Raises:
            Unavailable: there is no answer (`NotSent`: and no connection), or it is too large.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.limits.call
        while True:
            answer = await self._tried(peer, method, url, params, body, deadline)
            if answer.retry_after is None or clock() + answer.retry_after >= deadline:
                return answer
            await asyncio.sleep(max(answer.retry_after, _SHORTEST_PAUSE))

    async def _tried(
        self,
        peer: Peer,
        method: str,
        url: httpx2.URL,
        params: Mapping[str, str | int] | None,
        body: Any,
        deadline: float,
    ) -> Answer:
        clock = asyncio.get_running_loop().time
        for pause in (*self.limits.pauses, None) if method == "GET" else (None,):
            last = pause is None or clock() + pause >= deadline
            try:
                async with asyncio.timeout_at(deadline):
                    answer = await self._once(peer, method, url, params, body)
            except (TimeoutError, httpx2.TransportError, httpx2.DecodingError) as error:
                failure = self._failure(peer, error)
                if last or failure.facts["reason"] in _CERTAIN:
                    raise failure from error
            else:
                if last or answer.status not in _AGAIN:
                    return answer
            await asyncio.sleep(pause or 0)
        raise AssertionError("the last try returns or raises")

    async def _once(
        self, peer: Peer, method: str, url: httpx2.URL, params: Mapping[str, str | int] | None, body: Any
    ) -> Answer:
        asked = self._client.stream(method, url, params=params, json=body, headers=self._headers(url))
        async with asyncio.timeout(self.limits.request), asked as answer:
            if answer.headers.get("content-encoding", "identity").lower() != "identity":
                raise peer.unusable("compressed", "answers in a compressed form that was not asked for")
            read = bytearray()
            async for part in answer.aiter_bytes():
                read += part
                if len(read) > self.limits.answer:
                    raise peer.unusable("too_large", f"answers with more than {self.limits.answer} bytes")
            self._count(peer.kind, f"{answer.status_code // 100}xx")
            return Answer(answer.status_code, answer.headers.get("content-type", ""), bytes(read), _retry_after(answer))

    async def stream(self, peer: Peer, url: httpx2.URL, *, gather: float = 0.0) -> httpx2.Response:
        """Open a stream of events, which the caller closes. What comes within `gather` seconds is read together.

        One that is refused for now (429) is opened again when the answer says, as far as there is time.

        Raises:
            Unavailable: it cannot be opened.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.limits.call
        while True:
            answer = await self._opened(peer, url, gather)
            pause, left = _retry_after(answer), deadline - clock()
            if pause is None or left <= 0:
                return answer
            await answer.aclose()
            await asyncio.sleep(min(max(pause, _SHORTEST_PAUSE), left))

    async def _opened(self, peer: Peer, url: httpx2.URL, gather: float) -> httpx2.Response:
        timeout = httpx2.Timeout(self.limits.request, read=_SILENT_SECONDS)
        headers = {**self._headers(url), "accept": "text/event-stream", "cache-control": "no-store"}
        request = self._hearing.build_request(
            "GET", url, headers=headers, timeout=timeout, extensions={"gather": gather}
        )
        try:
            async with asyncio.timeout(self.limits.request):
                answer = await self._hearing.send(request, stream=True)
        except (TimeoutError, httpx2.TransportError) as error:
            raise self._failure(peer, error) from error
        self._count(peer.kind, f"{answer.status_code // 100}xx")
        return answer

    def _failure(self, peer: Peer, error: Exception) -> Unavailable:
        reason, why = explain(error)
        if isinstance(error, TimeoutError):
            reason, why = "timeout", f"no answer within {self.limits.request:g} s"
        self._count(peer.kind, reason)
        sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
        return peer.away(reason, why, sent=sent)

    @staticmethod
    def has_events(answer: httpx2.Response) -> bool:
        """Whether an answer is a stream of events."""
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        return answer.status_code == 200 and kind == "text/event-stream"

    def _headers(self, url: httpx2.URL) -> dict[str, str]:
        if self._token is None or not self._is_coders(url):
            return {}
        return {"Coder-Session-Token": self._token.get_secret_value()}

    def _is_coders(self, url: httpx2.URL) -> bool:
        base = self.base
        if base is None or url.scheme != base.scheme:
            return False
        if (url.host, url.port) == (base.host, base.port):
            return True
        address = url.host if url.port is None else f"{url.host}:{url.port}"
        return self._apps is not None and self._apps.fullmatch(address.lower()) is not None


def _retry_after(answer: httpx2.Response) -> int | None:
    """The seconds of `Retry-After` of a 429. A date is not waited for: clocks differ."""
    text = answer.headers.get("retry-after", "").strip()
    known = answer.status_code == 429 and text.isascii() and text.isdecimal() and len(text) <= _LONGEST_DIGITS
    return int(text) if known else None


@cache
def _trusted(ca: str | None) -> ssl.SSLContext:
    context = httpx2.create_ssl_context(trust_env=False)
    if ca is not None:
        try:
            context.load_verify_locations(cadata=ca)
        except (ssl.SSLError, ValueError, TypeError) as error:
            message = "coder_ca: must be CA certificates (PEM)"
            raise Rejected(message, code="bad_settings", field="coder_ca") from error
    return context


def _base(text: str) -> httpx2.URL:
    try:
        url = httpx2.URL(text.strip())
    except (httpx2.InvalidURL, ValueError):
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query or url.fragment:
        message = "coder_url: must be an http(s) address without a password, a query or a fragment"
        raise Rejected(message, code="bad_settings", field="coder_url")
    return url.copy_with(path=url.path.rstrip("/") + "/")


def _checked(token: SecretStr) -> SecretStr:
    text = token.get_secret_value().strip()
    if not text.isascii() or not text.isprintable() or not text or " " in text:
        raise Rejected("coder_token: must be one word of printable ASCII", code="bad_settings", field="coder_token")
    return SecretStr(text)
