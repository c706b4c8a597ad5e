"""Recorded exchanges of a real Coder, played back to the client of the fleet."""

import difflib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from pydantic import SecretStr
from tests.contract.tree import ROOT

from fleet.coder.client import Coder
from fleet.reaching.http import Http

DATA = ROOT / "tests" / "data" / "coder"
BASE = "https://coder.example"
ROUTE_UNKNOWN = {"message": "Route not found."}
QUERIES = {"/api/v2/workspaces": {"q": "owner:me", "limit": "25", "offset": "0"}}
"""The recordings have no queries; these are what the client asks with."""


@dataclass(frozen=True)
class Exchange:
    """A request and its answer."""

    number: int
    method: str
    path: str
    body: Any
    status: int
    answer: Any

    @property
    def key(self) -> str:
        """What a request has to be, in one line."""
        query = QUERIES.get(self.path, {}) if self.method == "GET" else {}
        return key_of(self.method, self.path, query, self.body)


def key_of(method: str, path: str, query: dict[str, str], body: Any) -> str:
    """A request in one line, the same for the same request."""
    return f"{method} {path} {json.dumps(query, sort_keys=True)} {json.dumps(body, sort_keys=True)}"


def read_exchanges(path: Path = DATA / "coder-recordings.json") -> list[Exchange]:
    """All recorded exchanges."""
    return [
        Exchange(number, one["method"], one["path"], one["request"], one["status"], one["response"])
        for number, one in enumerate(json.loads(path.read_text("utf-8")))
    ]


EXCHANGES = read_exchanges()


@dataclass
class Playback(httpx2.AsyncBaseTransport):
    """Answers recorded requests. What was not recorded fails the test, naming the nearest recording.

    `lacks` are beginnings of paths that the recorded Coder does not have, and answers with 404.
    """

    exchanges: list[Exchange] = field(default_factory=lambda: EXCHANGES)
    lacks: tuple[str, ...] = ("/api/v2/tasks/",)
    served: list[int] = field(default_factory=list[int])

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request."""
        path, body = request.url.path, json.loads(request.content) if request.content else None
        assert request.headers["coder-session-token"] == "secret"
        if path.startswith(self.lacks):
            return httpx2.Response(404, json=ROUTE_UNKNOWN)
        key = key_of(request.method, path, dict(request.url.params), body)
        known = {one.key: one for one in self.exchanges}
        if key not in known:
            nearest = difflib.get_close_matches(key, known, 1, 0.0)
            raise AssertionError(f"not recorded: {key}\n     nearest: {nearest[0] if nearest else 'none'}")
        found = known[key]
        self.served.append(found.number)
        if found.answer is None:
            return httpx2.Response(found.status)
        return httpx2.Response(found.status, json=found.answer)


def http_of(transport: httpx2.AsyncBaseTransport, base: str = BASE) -> Http:
    """An HTTP client on a transport."""
    return Http(base, SecretStr("secret"), transport=transport)


def coder_of(transport: httpx2.AsyncBaseTransport) -> Coder:
    """A client of Coder on a transport."""
    return Coder(http_of(transport))


def answering(answers: dict[str, Any], status: int = 200) -> httpx2.MockTransport:
    """A Coder that answers paths with JSON, and others with 404."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path not in answers:
            return httpx2.Response(404, json=ROUTE_UNKNOWN)
        found = answers[request.url.path]
        return found if isinstance(found, httpx2.Response) else httpx2.Response(status, text=json.dumps(found))

    return httpx2.MockTransport(answer)


def recorded(number: int) -> Any:
    """The answer of a recording."""
    return EXCHANGES[number].answer
