"""What the console adds to a call of an agent, and what it costs to keep chats open."""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
from mcp import Client
from tests.bench.console.chats import AGENT, attached, reacting
from tests.bench.console.service import Service
from tests.bench.figures import percentile
from tests.integration.workspaces.chat.talk import Stream, Talk, begin
from tests.workspaces_world.agent import Agent, Work

_TURNS = 10
"""In a conversation: later ones send the earlier ones along."""

type Report = Callable[[str], None]


async def measure_overhead(service: Service, agent: Agent, conversations: int, report: Report) -> dict[str, Any]:
    """Milliseconds from a message to its answer in the event stream, and of the same call without the console."""
    report(f"{conversations * _TURNS} messages, and as many calls")
    console, plain = list[float](), list[float]()
    async with reacting(agent), Client(agent.url) as client:
        for number in range(conversations + 1):
            talk = await begin(service.http)
            async with talk.following() as stream:
                for _ in range(_TURNS):
                    console_ms = await _message(talk, stream)
                    plain_ms = await _call(client, agent.works.items[-1])
                    if number:
                        console.append(console_ms)
                        plain.append(plain_ms)
    added = [this - that for this, that in zip(console, plain, strict=True)]
    return {
        "turns": len(console),
        "console_p50_ms": percentile(console, 0.5),
        "plain_p50_ms": percentile(plain, 0.5),
        "added_p50_ms": percentile(added, 0.5),
        "added_p95_ms": percentile(added, 0.95),
    }


async def _message(talk: Talk, stream: Stream) -> float:
    since = time.perf_counter()
    sent = await talk.send("hello")
    await stream.until("message", id=sent["reply_id"], status="answered")
    return 1000 * (time.perf_counter() - since)


async def _call(client: Client, work: Work) -> float:
    """The call that the console has made, made again."""

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        pass

    since = time.perf_counter()
    await client.call_tool("harper", work.arguments, progress_callback=heard)
    return 1000 * (time.perf_counter() - since)


async def measure_open_chats(service: Service, count: int, report: Report) -> dict[str, Any]:
    """Memory of the service with so many open chats, and milliseconds until all have an answer that one of them got."""
    report(f"{count} open chats")
    empty = service.process.rss_bytes()
    async with attached(service) as agent, AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=service.base,
                cookies=service.http.cookies,
                trust_env=False,
                limits=httpx.Limits(max_connections=None),
            )
        )
        own = [await begin(service.http) for _ in range(count)]
        async with AsyncExitStack() as streams:
            for talk in own:
                await streams.enter_async_context(talk.following(http=http))
            apart = service.process.rss_bytes()
        shared = own[0]
        streams = [await stack.enter_async_context(shared.following(http=http)) for _ in range(count)]
        sent = await shared.send("hello", AGENT)
        work = await agent.next()
        for stream in streams:
            await stream.until("message", id=sent["reply_id"])
        since = time.perf_counter()
        await work.answer("an answer")
        for stream in streams:
            await stream.until("message", id=sent["reply_id"], status="answered")
        reached_ms = 1000 * (time.perf_counter() - since)
        together = service.process.rss_bytes()
    return {
        "count": count,
        "empty_mib": empty / 2**20,
        "rss_mib": max(apart, together) / 2**20,
        "reached_ms": reached_ms,
    }
