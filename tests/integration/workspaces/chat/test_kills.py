"""Processes that are killed while an agent works. The answer comes, once, and the agent works once.

The agent and the browser are in the test's process; replicas and Postgres are processes of their own.
"""

import asyncio
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.integration.processes import Service, a_service
from tests.integration.workspaces.chat.talk import Stream, Talk, attach, begin
from tests.integration.workspaces.lab import PASSWORD, client_of, environment
from tests.postgres import PostgresServer
from tests.workspaces_world.agent import Agent

from pallas_postgres.engine import open_engine
from workspaces.migrate import MIGRATIONS


@dataclass
class Replicas:
    """Replicas on one database, started on demand."""

    url: str
    folder: Path
    stack: AsyncExitStack
    names: list[str] = field(default_factory=list[str])

    async def start(self) -> Service:
        """Start a replica, and wait until it is ready."""
        name = f"replica-{len(self.names) + 1}"
        self.names.append(name)
        # Agents keep the keys of one caller apart from those of others; here all replicas have the same address.
        given = environment(postgres_url=self.url)
        service = await self.stack.enter_async_context(
            a_service("workspaces", given["PALLAS_NATS_URL"], self.folder, name, given)
        )
        await service.ready()
        return service

    async def talk(self, service: Service, like: Talk | None = None) -> Talk:
        """A conversation at a replica: a new one, or one that there is."""
        http = await self.stack.enter_async_context(client_of(service.base, ("admin", PASSWORD)))
        return Talk(http, like.conversation) if like is not None else await begin(http)


@pytest.fixture
async def replicas(database: str, tmp_path: Path, harper: Agent) -> AsyncGenerator[Replicas]:
    engine = open_engine(database, pool=1, service="tests")
    await attach(engine, harper)
    await engine.dispose()
    async with AsyncExitStack() as stack:
        yield Replicas(database, tmp_path, stack)


def once(stream: Stream) -> None:
    """Check that no revision came twice, and that they came in order."""
    revisions = [one["revision"] for one in stream.of("message")]
    assert revisions == sorted(set(revisions))


async def test_another_replica_goes_on_when_one_is_killed(replicas: Replicas, harper: Agent) -> None:
    first, second = await asyncio.gather(replicas.start(), replicas.start())
    talk = await replicas.talk(first)
    there = await replicas.talk(second, talk)
    async with there.following(after=0) as stream:
        sent = await talk.send()
        work = await harper.next()
        await work.text("It is ")
        await stream.text(sent["reply_id"], "It is ")
        first.send(signal.SIGKILL)
        await stream.until("message", id=sent["reply_id"], attempt=2)
        await stream.text(sent["reply_id"], "It is ")
        await work.text("done.")
        await stream.text(sent["reply_id"], "It is done.")
        await work.answer("It is done.")
        await stream.until("message", id=sent["reply_id"], status="answered", content="It is done.")
        once(stream)
    assert harper.executed == ["hello"]


@pytest.fixture
def own_postgres(tmp_path: Path) -> Generator[PostgresServer]:
    """A Postgres of one test alone."""
    with PostgresServer(tmp_path / "postgres") as server:
        yield server


async def test_an_answer_that_comes_while_postgres_is_away_is_stored_when_it_is_back(
    own_postgres: PostgresServer, tmp_path: Path, harper: Agent
) -> None:
    engine = open_engine(own_postgres.url, pool=1, service="tests")
    await MIGRATIONS.run(engine)
    await attach(engine, harper)
    await engine.dispose()
    async with AsyncExitStack() as stack:
        replicas = Replicas(own_postgres.url, tmp_path, stack)
        first = await replicas.start()
        talk = await replicas.talk(first)
        async with talk.following(after=0) as stream:
            sent = await talk.send()
            work = await harper.next()
            last = await stream.until("message", id=sent["reply_id"])
            await asyncio.to_thread(own_postgres.kill9)
            await work.answer("in between")
            await first.not_ready()
            await asyncio.to_thread(own_postgres.start)
            await first.ready()
        async with talk.following(last=last.id) as stream:
            await stream.until("message", id=sent["reply_id"], status="answered", content="in between")
            once(stream)
    assert harper.executed == ["hello"]
