"""The HTTP API of a Constellation service: one request at a time, always with both headers, within limits.

Answers to reads are kept for a while. What goes wrong is told without the address or the key of the service.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
from pydantic_core import from_json

from constellation_mcp.configuration import Configuration
from pallas_cst.values import is_object

log = logging.getLogger(__name__)

MOST_PER_MINUTE, MOST_AT_ONCE = 200, 40
"""Requests of this program, as many as the service admits for one key."""

_MOST_KEPT = 1_000
_QUICK = httpx2.Timeout(30.0, connect=5.0)
_RUNS = httpx2.Timeout(None, connect=5.0)  # the service ends a run that takes too long
_FOLLOWS = httpx2.Timeout(60.0, connect=5.0)  # a stream of events has a ping every 15 s
_AWAY_SECONDS, _PAUSE, _CANCEL_SECONDS = 60.0, 1.0, 2.0
"""How long the service may be away while a run is followed, the pause between two tries, and the time for a cancel."""

_EXECUTION_ID = "x-constellation-execution-id"
_REASONS = {
    401: "the API key is missing or is not accepted",
    403: "the API key does not allow this",
    413: "the request is too large",
}


class ServiceError(Exception):
    """The service did not give what was asked for. `answer` is its JSON, if it gave any."""

    def __init__(self, message: str, status: int | None = None, answer: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.answer = answer


class Offline(ServiceError):
    """There is no service, or it cannot be reached. `sent`: it may have received the request."""

    sent = False


@dataclass
class Bucket:
    """Admits `per_minute` requests, and `burst` at once."""

    per_minute: float
    burst: float
    _left: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._left, self._at = self.burst, time.monotonic()

    def take(self) -> float:
        """Take one; else the seconds until there is one."""
        now = time.monotonic()
        self._left = min(self.burst, self._left + (now - self._at) * self.per_minute / 60)
        self._at = now
        if self._left < 1:
            return (1 - self._left) * 60 / self.per_minute
        self._left -= 1
        return 0.0


@dataclass
class Service:
    """The service, and what is known of it for a while."""

    configuration: Configuration
    http: httpx2.AsyncClient
    bucket: Bucket = field(default_factory=lambda: Bucket(MOST_PER_MINUTE, MOST_AT_ONCE))
    _kept: dict[tuple[str, str], tuple[float, Any]] = field(default_factory=dict[tuple[str, str], tuple[float, Any]])
    _cancels: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    async def get(self, caller: str, path: str, *, keep: bool = True) -> Any:
        """What is at a path: JSON, or the text if it is none. `caller` is who asks; `keep`: it may be some seconds old.

        Raises:
            ServiceError: the service does not give it.
        """
        until, value = self._kept.get((caller, path), (0.0, None))
        if time.monotonic() < until:
            return value
        value = await self._request(caller, "GET", path)
        if not keep:
            return value
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[caller, path] = (time.monotonic() + self.configuration.cache.module_ttl_seconds, value)
        return value

    async def post(self, caller: str, path: str, body: Mapping[str, Any]) -> Any:
        """What the service answers.

        Raises:
            ServiceError: it answers with an error, or not at all.
        """
        return await self._request(caller, "POST", path, body)

    async def run(self, caller: str, path: str, body: Mapping[str, Any]) -> Any:
        """What an execution answers, however long it takes. When the connection is lost, it is followed by its id.

        It has an idempotency key, so it goes on without a connection. It is never asked for again.

        Raises:
            ServiceError: the service answers with an error, or does not come back.
        """
        seen, key = list[str](), {"Idempotency-Key": f"mcp-{secrets.token_hex(16)}"}
        try:
            try:
                return await self._request(caller, "POST", path, body, _RUNS, headers=key, executions=seen)
            except Offline as lost:
                if not seen:
                    more = "; it may be executed all the same: see the history before repeating" if lost.sent else ""
                    raise Offline(f"{lost}{more}") from None
            await self._follow(caller, seen[0])
            return await self._request(caller, "GET", f"/executions/{segment(seen[0])}")
        except asyncio.CancelledError:
            if seen:
                task = asyncio.create_task(self._cancel(caller, seen[0]))
                self._cancels.add(task)
                task.add_done_callback(self._cancels.discard)
            raise

    async def finish(self) -> None:
        """Wait for a moment until executions that nobody waits for any more are cancelled."""
        if self._cancels:
            await asyncio.wait(self._cancels, timeout=_CANCEL_SECONDS)

    async def _cancel(self, caller: str, execution: str) -> None:
        with suppress(ServiceError):
            await self._request(caller, "DELETE", f"/executions/{segment(execution)}")

    async def _follow(self, caller: str, execution: str) -> None:
        """Wait until an execution has ended.

        Raises:
            ServiceError: the service does not come back, or does not know the execution. The message has its id.
        """
        path, away_since = f"/executions/{segment(execution)}/events", time.monotonic()
        while True:
            began = time.monotonic()
            try:
                events = await self._request(caller, "GET", path, timeout=_FOLLOWS)
                if "event: end\n" in str(events):
                    return
            except ServiceError as error:
                if error.status is not None and error.status < 500 and error.status != 429:
                    raise
            if time.monotonic() - began > 2 * _PAUSE:  # the service was there for a while
                away_since = time.monotonic()
            if time.monotonic() - away_since > _AWAY_SECONDS:
                raise Offline(f"the connection was lost; execution {execution} goes on, see the history for its end")
            await asyncio.sleep(_PAUSE)

    def forget(self) -> None:
        """Keep nothing of what was read."""
        self._kept.clear()

    async def _request(
        self,
        caller: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: httpx2.Timeout = _QUICK,
        *,
        headers: Mapping[str, str] | None = None,
        executions: list[str] | None = None,
    ) -> Any:
        """The answer of a request. The id of the execution that it makes is added to `executions`, before its end."""
        settings = self.configuration.constellation
        if settings.base_url is None:
            raise Offline("no Constellation service is configured: set CONSTELLATION_URL")
        if (seconds := self.bucket.take()) > 0:
            raise ServiceError(f"too many requests from this program; try again in {seconds:.1f} s")
        request_id = f"mcp-req-{secrets.token_hex(6)}"
        sent = {"X-Constellation-Agent": caller, "X-Constellation-Request-ID": request_id, **(headers or {})}
        if settings.api_key is not None:
            sent["Authorization"] = f"Bearer {settings.api_key.get_secret_value()}"
        try:
            async with self.http.stream(
                method, settings.base_url + path, json=body, headers=sent, timeout=timeout
            ) as response:
                if executions is not None and (execution := response.headers.get(_EXECUTION_ID)) is not None:
                    executions.append(execution)
                await response.aread()
        except httpx2.RequestError as error:
            log.warning("%s %s: %s (%s)", method, path, type(error).__name__, request_id)
            offline = Offline(f"the Constellation service cannot be reached ({request_id})")
            offline.sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            raise offline from None
        log.info("%s %s: %d (%s)", method, path, response.status_code, request_id)
        answer = _content(response)
        if response.is_success:
            return answer
        raise ServiceError(self._explained(response, answer, request_id), response.status_code, answer)

    def _explained(self, response: httpx2.Response, answer: Any, request_id: str) -> str:
        status, said = response.status_code, answer.get("message") if is_object(answer) else None
        if status == 429 and (seconds := response.headers.get("retry-after")):
            reason = f"too many requests; try again in {seconds} s"
        else:
            reason = said if isinstance(said, str) else _REASONS.get(status)
        text = f"the Constellation service answered {status}{f': {reason}' if reason else ''} ({request_id})"
        return self.without_secrets(text)

    def without_secrets(self, text: str) -> str:
        """A text without the address of the service and without its key."""
        settings = self.configuration.constellation
        url = settings.base_url or ""
        key = settings.api_key.get_secret_value() if settings.api_key else ""
        for secret in (key, url, urlsplit(url).netloc):
            text = text.replace(secret, "…") if secret else text
        return text


def _content(response: httpx2.Response) -> Any:
    """The JSON of a response, or its text. JSON that MCP could not carry is text: lone surrogates, NaN, great depth."""
    try:
        return from_json(response.content, allow_inf_nan=False)
    except ValueError:
        return response.text


def segment(name: str) -> str:
    """A name as one part of a path.

    Raises:
        ServiceError: no name is like this.
    """
    if name in ("", ".", ".."):
        raise ServiceError(f"there is nothing with the name {name!r}", 404)
    return quote(name, safe="")


@asynccontextmanager
async def connect(configuration: Configuration) -> AsyncGenerator[Service]:
    """The service, for as long as the block lasts."""
    async with httpx2.AsyncClient() as http:
        service = Service(configuration, http)
        try:
            yield service
        finally:
            await service.finish()
