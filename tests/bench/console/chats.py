"""Conversations with an agent that answers at once."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from tests.bench.console.service import Service
from tests.integration.workspaces.chat.talk import Talk, attach, begin
from tests.workspaces_world.agent import Agent, Work, an_agent

AGENT = "pallas-harper"
WORKSPACE = "ws"
_IDLE = 3600.0

type React = Callable[[Work], Coroutine[Any, Any, None]]


async def answer_at_once(work: Work) -> None:
    await work.answer(f"You said: {work.message}")


@asynccontextmanager
async def reacting(agent: Agent, react: React = answer_at_once) -> AsyncGenerator[None]:
    """Have each further call of an agent answered, until the block ends."""
    seen = len(agent.works.items)

    async def react_to_all() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(seen + 1, 1_000_000):
                works = await agent.works.count(number, within=_IDLE)
                group.create_task(react(works[number - 1]))

    task = asyncio.create_task(react_to_all())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@asynccontextmanager
async def attached(service: Service) -> AsyncGenerator[Agent]:
    """An agent in a team that is attached to the workspace."""
    async with an_agent("harper") as agent:
        await attach(service.engine, agent)
        yield agent


async def talked(service: Service, *messages: str) -> Talk:
    """A conversation in which these messages were answered."""
    talk = await begin(service.http)
    async with talk.following() as stream:
        for message in messages:
            sent = await talk.send(message)
            await stream.until("message", id=sent["reply_id"], status="answered")
    return talk
