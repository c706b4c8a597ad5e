"""A stand-in for the resolver that knows the bearers of a test, over a real broker."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import httpx
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests.e2e import wire
from tests.waiting import soon

from pallas_bus.ask import answer, answering
from pallas_bus.connection import Bus
from pallas_contracts.auth import AUTH_FAILURES, ResolveBearer, Resolved
from pallas_contracts.catalog import RESOLVE
from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal

TEAM = Principal(type="team", id="8a9e2f5c-0000-4000-8000-000000000001", name="Kottos")
TOKEN = Principal(type="token", id="8a9e2f5c-0000-4000-8000-000000000002", name="Claude Desktop")
TURN = Principal(type="turn", id="robert", name="a workspace")

SECRET = "eyJ-a-bearer-of-"
"""The prefix of every bearer, so that leaks are easy to find."""

TEAMS, TEAMS_OTHER, TOKENS, TURNS = (
    f"{SECRET}a-team",
    f"{SECRET}the-team-rotated",
    f"{SECRET}a-token",
    f"{SECRET}a-turn",
)


@dataclass
class Bearers:
    """Answers as the resolver does. `asked` has the questions so far. `refused` maps bearers to reasons."""

    held: dict[str, Principal] = field(
        default_factory=lambda: {TEAMS: TEAM, TEAMS_OTHER: TEAM, TOKENS: TOKEN, TURNS: TURN}
    )
    refused: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[ResolveBearer] = field(default_factory=list[ResolveBearer])

    async def __call__(self, question: ResolveBearer) -> Resolved:
        """The principal of a bearer."""
        self.asked.append(question)
        principal = self.held.get(question.bearer)
        if principal is None:
            reason = self.refused.get(question.bearer, "token_not_found")
            raise Denied(AUTH_FAILURES[reason], code=reason)
        return Resolved(principal=principal, libraries=("lib",), cache="hit")


@asynccontextmanager
async def resolving(bus: Bus, held: dict[str, Principal] | None = None) -> AsyncGenerator[Bearers]:
    """Answer on this connection; `held` in place of the usual bearers."""
    bearers, service = Bearers() if held is None else Bearers(held), await answering(bus)
    await answer(bus, service, RESOLVE, bearers)
    yield bearers
    await service.stop()


@dataclass(frozen=True)
class Sent:
    """A request: method, headers and body."""

    method: str = "POST"
    content: bytes = b""
    headers: tuple[tuple[str, str], ...] = tuple(wire.ACCEPT.items())

    async def to(self, http: httpx.AsyncClient, url: str, *more: tuple[str, str]) -> httpx.Response:
        """Send it with `more` headers."""
        headers = [*self.headers, ("content-type", "application/json"), *more]
        return await soon(http.request(self.method, url, content=self.content, headers=headers))


def posted(request: tuple[object, dict[str, str]]) -> Sent:
    """A POST with a body and headers from `wire`."""
    body, headers = request
    return Sent(content=json.dumps(body).encode(), headers=tuple(headers.items()))


SAY: wire.Message = {"name": "say", "arguments": {"text": "hello"}}

REQUESTS = {
    "modern call": posted(wire.modern("tools/call", SAY)),
    "modern list": posted(wire.modern("tools/list", {})),
    "older call": posted(wire.legacy("tools/call", SAY, "s")),
    "older notification": posted(wire.legacy("notifications/cancelled", {"requestId": 1}, "s", request_id=None)),
    "no json": Sent(content=b"nonsense"),
    "resumption": Sent("GET", headers=(("accept", "text/event-stream"), ("last-event-id", "x"))),
    "stream": Sent("GET", headers=(("accept", "text/event-stream"),)),
    "end of a session": Sent("DELETE", headers=(("mcp-session-id", "s"),)),
}
"""Every kind of request to an agent."""


def authorization(bearer: str) -> dict[str, str]:
    """The header with a bearer."""
    return {"authorization": f"Bearer {bearer}"}


def header_of(bearer: str) -> tuple[str, str]:
    """The same, as a pair."""
    return "authorization", f"Bearer {bearer}"


@asynccontextmanager
async def client(
    url: str, bearer: str | None = None, era: Literal["auto", "legacy"] = "auto"
) -> AsyncGenerator[Client]:
    """The official client, connected, with a bearer if there is one."""
    headers = authorization(bearer) if bearer is not None else {}
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
        transport = streamable_http_client(url, http_client=http)
        yield await stack.enter_async_context(Client(transport, mode=era))
