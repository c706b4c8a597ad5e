"""A person who talks with agents: a client of the service, and a reader of its events."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from tests.integration.workspaces.lab import API
from tests.waiting import Collected
from tests.workspaces_world.agent import Agent, Work

from workspaces.live.hub import ALL, Hub
from workspaces.tables import AgentConnection, Assignment, PallasInstance, Workspace


@dataclass(frozen=True)
class SseEvent:
    """An event as a browser gets it."""

    kind: str
    data: dict[str, Any]
    id: str | None = None


@dataclass
class Stream:
    """An open event stream."""

    events: Collected[SseEvent] = field(default_factory=Collected[SseEvent])

    async def until(self, kind: str, **facts: Any) -> SseEvent:
        """The first event of a kind with these facts."""

        def fits(event: SseEvent) -> bool:
            return event.kind == kind and facts.items() <= event.data.items()

        events = await self.events.until(lambda events: any(map(fits, events)))
        return next(filter(fits, events))

    def kinds(self) -> list[str]:
        """The kinds of the events so far."""
        return [event.kind for event in self.events.items]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The data of the events of a kind so far."""
        return [event.data for event in self.events.items if event.kind == kind]

    async def text(self, message_id: str, whole: str) -> None:
        """Wait until the streamed text of a reply is this one, put together as a browser does."""
        await self.events.until(lambda _: self.text_of(message_id) == whole)

    def text_of(self, message_id: str) -> str:
        """The streamed text of a reply, put together as a browser does."""
        text, era = "", (0, 0)
        for one in self.of("text"):
            if one["message_id"] != message_id:
                continue
            if (one["attempt"], one["restarts"]) > era:
                text, era = "", (one["attempt"], one["restarts"])
            units = text.encode("utf-16-le")
            if 2 * one["offset"] <= len(units):
                longer = units[: 2 * one["offset"]] + one["text"].encode("utf-16-le")
                text = (longer if len(longer) > len(units) else units).decode("utf-16-le")
        return text


@dataclass(frozen=True)
class Talk:
    """One conversation of a person. `http` is logged in."""

    http: httpx.AsyncClient
    conversation: str
    workspace: str = "ws"

    async def send(self, text: str = "hello", server_id: str = "pallas-harper", **fields: Any) -> dict[str, Any]:
        """Send a message; it must be accepted. Returns the answer."""
        answer = await self.try_send(text, server_id, **fields)
        assert answer.status_code == 202, answer.text
        return answer.json()

    async def try_send(self, text: str = "hello", server_id: str = "pallas-harper", **fields: Any) -> httpx.Response:
        """Send a message."""
        body = {"text": text, "agent_server_id": server_id, **fields}
        return await self.http.post(f"{API}/conversations/{self.conversation}/messages", json=body)

    async def page(self, **query: Any) -> dict[str, Any]:
        """The conversation with its messages."""
        answer = await self.http.get(f"{API}/conversations/{self.conversation}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def reply(self, reply_id: str) -> dict[str, Any]:
        """A reply as it is stored."""
        return next(one for one in (await self.page())["messages"] if one["id"] == reply_id)

    async def post(self, reply_id: str, what: str, **body: Any) -> httpx.Response:
        """Decide about a reply: cancel, retry or answer."""
        return await self.http.post(f"{API}/messages/{reply_id}/{what}", json=body)

    @asynccontextmanager
    async def following(
        self, *, after: int | None = None, last: str | None = None, http: httpx.AsyncClient | None = None
    ) -> AsyncGenerator[Stream]:
        """Read the events of the conversation, from `ready` on."""
        query: dict[str, Any] = {"conversation": self.conversation} | ({"after": after} if after is not None else {})
        async with reading_events(http or self.http, f"{API}/events", query, last) as stream:
            yield stream

    @asynccontextmanager
    async def begun(self, agent: Agent, text: str = "hello") -> AsyncGenerator[tuple[Stream, dict[str, Any], Work]]:
        """Send a message and wait for the agent's first work; reads the events of the conversation from before."""
        async with self.following() as stream:
            sent = await self.send(text)
            yield stream, sent, await agent.next()


@asynccontextmanager
async def reading_events(
    http: httpx.AsyncClient, path: str, query: dict[str, Any], last: str | None = None
) -> AsyncGenerator[Stream]:
    """Read an event stream in the background, from its first event on."""
    stream = Stream()

    async def read() -> None:
        headers = {"last-event-id": last} if last is not None else {}
        async with http.stream("GET", path, params=query, headers=headers, timeout=None) as response:
            assert response.status_code == 200, await response.aread()
            block = dict[str, str]()
            async for line in response.aiter_lines():
                if line and not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    block[name] = value
                elif not line and block:
                    stream.events.add(SseEvent(block.get("event", ""), json.loads(block["data"]), block.get("id")))
                    block = {}

    task = asyncio.create_task(read())
    try:
        await stream.events.count(1)
        yield stream
    finally:
        task.cancel()
        await asyncio.wait({task})


class Attachable(Protocol):
    """An agent to attach."""

    @property
    def name(self) -> str:
        """Its name, without `pallas-`."""
        ...

    @property
    def url(self) -> str:
        """Its MCP endpoint."""
        ...


async def attach(
    engine: AsyncEngine, *agents: Attachable, team: str = "Kottos", instance: str | None = None, **capabilities: Any
) -> str:
    """Store an instance with these agents, attached to the workspace `ws`. Returns its id."""
    instance = instance or str(uuid.uuid4())
    ids = [(f"pallas-{agent.name}", agent) for agent in agents]
    async with AsyncSession(engine) as session:
        if await session.get(Workspace, "ws") is None:
            session.add(Workspace(id="ws", name="Workspace"))
        listed = [
            {"server_id": name, "name": f"ca.helu/{name}", "title": agent.name.title(), "url": agent.url}
            for name, agent in ids
        ]
        session.add(PallasInstance(id=instance, name=team, registry_url=f"http://{instance}", agents=listed))
        await session.flush()
        session.add(Assignment(workspace_id="ws", pallas_instance_id=instance))
        await session.flush()
        for server_id, agent in ids:
            session.add(
                AgentConnection(
                    workspace_id="ws",
                    pallas_instance_id=instance,
                    server_id=server_id,
                    name=f"ca.helu/{server_id}",
                    title=agent.name.title(),
                    url=agent.url,
                    **capabilities,
                )
            )
        await Hub.tell_in(session, ALL, "agents", {})
        await session.commit()
    return instance


async def begin(http: httpx.AsyncClient, workspace: str = "ws", **fields: Any) -> Talk:
    """Create a conversation."""
    answer = await http.post(f"{API}/workspaces/{workspace}/conversations", json=fields)
    assert answer.status_code == 201, answer.text
    return Talk(http, answer.json()["id"], workspace)
