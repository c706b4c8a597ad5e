"""A client of the HTTP API of pipelines. Its errors become readable lines."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from pallas_cli.refused import NotReachable, Refused, not_reached
from pallas_cli.waiting import shown

type Document = dict[str, Any]

EXECUTION_HEADER = "X-Constellation-Execution-ID"
"""The header of an answer that names the execution, before the answer itself is there."""
_SECONDS = 30.0
_LAST_SECONDS = 1.0
"""How long the last events are waited for after the answer."""
_BAD_REQUEST = 400


@dataclass(frozen=True, slots=True)
class PipelinesApi:
    """The API at `url`. `token` is a bearer token."""

    url: str
    token: str | None = field(default=None, repr=False)

    def get(self, *path: str, **query: str | int | None) -> Document:
        """The document at a path, which is given as segments."""
        given = {name: value for name, value in query.items() if value is not None}
        return self._document(self._ask("GET", _path(path), params=given))

    def text(self, *path: str) -> str:
        """The text at a path."""
        return self._ask("GET", _path(path)).text

    def post(self, path: str, body: Document) -> Document:
        """The answer of a request; of a program that has faults, too."""
        return self._document(self._ask("POST", path, json=body))

    async def run(self, path: str, body: Document, on_event: Callable[[str], None]) -> Document:
        """The same for a request that takes as long as an execution. `on_event` is given what happens meanwhile."""
        try:
            async with self._client(httpx.Timeout(_SECONDS, read=None)) as http, asyncio.TaskGroup() as tasks:
                async with http.stream("POST", path, json=body) as answer:
                    execution = answer.headers.get(EXECUTION_HEADER)
                    following = tasks.create_task(_follow(http, execution, on_event)) if execution else None
                    await answer.aread()
                if following:
                    await asyncio.wait([following], timeout=_LAST_SECONDS)
                    following.cancel()
        except* (httpx.HTTPError, httpx.InvalidURL) as errors:
            raise self._not_reached(errors.exceptions[0]) from None
        return self._document(self._accepted(answer))

    def _client(self, timeout: httpx.Timeout) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers=self._headers(), timeout=timeout, verify=self._verify)

    def _headers(self) -> dict[str, str]:
        own = {"X-Constellation-Request-ID": f"cli-{uuid4().hex[:12]}"}
        return {**own, "Authorization": f"Bearer {self.token}"} if self.token else own

    @property
    def _verify(self) -> bool:
        """Loading the certificates takes longer than most requests, and plain HTTP needs none."""
        return not self.url.startswith("http://")

    def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        url = f"{self.url.rstrip('/')}{path}"
        try:
            with shown("asking the pipelines service"):
                answer = httpx.request(
                    method, url, headers=self._headers(), timeout=_SECONDS, verify=self._verify, **request
                )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._not_reached(error) from error
        return self._accepted(answer)

    def _accepted(self, answer: httpx.Response) -> httpx.Response:
        """The answer, if it is none that says `error` and `message`."""
        if answer.is_success:
            return answer
        match _json(answer):
            case {"message": str(message)}:
                raise Refused(message)
            case dict() if answer.status_code == _BAD_REQUEST:
                return answer
            case _:
                raise self._not_ours(answer)

    def _document(self, answer: httpx.Response) -> Document:
        match _json(answer):
            case {**document}:
                return {**document}
            case _:
                raise self._not_ours(answer)

    def _not_ours(self, answer: httpx.Response) -> Refused:
        said = f"{self.url} answers with HTTP status {answer.status_code}"
        return Refused(f"{said}, but not as the pipelines service")

    def _not_reached(self, error: Exception) -> NotReachable:
        return not_reached(f"the pipelines service at {self.url}", error)


def part(document: Document, name: str) -> Document:
    """An object in a document; empty if it is missing or null."""
    found: Document = document.get(name) or {}
    return found


def parts(document: Document, name: str) -> list[Document]:
    """The objects of a list in a document; none if it is missing or null. Texts in it are left out."""
    found: list[Any] = document.get(name) or []
    return [each for each in found if isinstance(each, dict)]


def texts(document: Document, name: str) -> list[str]:
    """The texts of a list in a document."""
    found: list[Any] = document.get(name) or []
    return [each for each in found if isinstance(each, str)]


def typed(document: Document, name: str) -> list[str]:
    """The inputs or outputs in a document, such as `order: Int`."""
    return [f"{name}: {kind}" for name, kind in part(document, name).items()]


def _path(segments: tuple[str, ...]) -> str:
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


async def _follow(http: httpx.AsyncClient, execution: str, on_event: Callable[[str], None]) -> None:
    """Tell the server-sent events of an execution, if the server has them."""
    with suppress(httpx.HTTPError):
        async with http.stream("GET", _path(("executions", execution, "events"))) as events:
            if not events.is_success:
                return
            async for line in events.aiter_lines():
                if line.startswith("data:"):
                    on_event(_message(line.removeprefix("data:").strip()))


def _message(data: str) -> str:
    """What an event says: its `message`, else all of it."""
    with suppress(ValueError):
        match json.loads(data):
            case {"message": str(message)}:
                return message
            case _:
                pass
    return data
