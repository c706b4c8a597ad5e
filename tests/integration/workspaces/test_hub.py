"""What is told reaches readers of all replicas, and a reader that may have missed something is told so."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from tests.integration.real_parts import until
from tests.integration.workspaces.lab import a_hub
from tests.link import linked
from tests.postgres import PostgresServer

from workspaces.live import hub as hub_module
from workspaces.live.hub import ALL, LONGEST, MOST_WAITING, WORK, Hub, Live


@pytest.fixture
async def hubs(database: str) -> AsyncGenerator[tuple[Hub, Hub]]:
    """The hubs of two replicas."""
    async with a_hub(database) as one, a_hub(database) as other:
        yield one, other


async def next_of(items: AsyncIterator[Live]) -> Live:
    async with asyncio.timeout(10):
        return await anext(items)


async def test_readers_of_all_replicas_hear_it_once_and_in_order(hubs: tuple[Hub, Hub]) -> None:
    one, other = hubs
    async with one.subscribe(ALL) as here, other.subscribe(ALL) as there:
        for number in range(200):
            await one.tell(ALL, "instance", {"id": number})
        await other.tell(ALL, "last", {})
        for items in (here, there):
            heard = [await next_of(items) for _ in range(201)]
            assert [item.data["id"] for item in heard if item.kind == "instance"] == list(range(200))
            assert sum(item.kind == "last" for item in heard) == 1


async def test_readers_here_hear_it_at_once(hubs: tuple[Hub, Hub]) -> None:
    async with hubs[0].subscribe("conversation:1") as items:
        await hubs[0].tell("conversation:1", "progress", {"message": "ä"})
        waiting = anext(items)
        with pytest.raises(StopIteration):  # it does not wait
            waiting.__await__().send(None)


async def test_a_reader_hears_its_topics_only(hubs: tuple[Hub, Hub]) -> None:
    async with hubs[1].subscribe(ALL, "conversation:1") as items:
        await hubs[0].tell("conversation:2", "progress", {})
        await hubs[0].tell("conversation:1", "progress", {})
        assert await next_of(items) == Live("conversation:1", "progress", {})


async def test_what_is_told_in_a_transaction_is_heard_everywhere_when_it_is_committed(
    hubs: tuple[Hub, Hub], engine: AsyncEngine
) -> None:
    async with hubs[0].subscribe(WORK) as here, hubs[1].subscribe(WORK) as there, AsyncSession(engine) as session:
        await Hub.tell_in(session, WORK, "undone", {})
        await session.rollback()
        await Hub.tell_in(session, WORK, "teams", {"id": "1"})
        await session.commit()
        for items in (here, there):
            assert await next_of(items) == Live(WORK, "teams", {"id": "1"})


async def test_what_others_tell_is_heard_behind_what_the_maker_of_a_change_tells_here(hubs: tuple[Hub, Hub]) -> None:
    one, other = hubs
    topic, own = "conversation:1", Live("conversation:1", "message", {"revision": 1})
    async with one.subscribe(topic) as items, one.subscribe(ALL) as others:
        with one.telling_first(topic):
            await other.tell(topic, "notified", {})
            await other.tell(ALL, "behind", {})
            assert (await next_of(others)).kind == "behind"  # so the first one has arrived, too
            with one.telling_first(topic):
                one.tell_here(own)
        assert [await next_of(items), (await next_of(items)).kind] == [own, "notified"]
        await other.tell(topic, "later", {})
        assert (await next_of(items)).kind == "later"


async def test_instead_of_what_is_too_long_others_are_told_to_read_again(hubs: tuple[Hub, Hub]) -> None:
    async with hubs[0].subscribe(ALL) as here, hubs[1].subscribe(ALL) as there:
        long = {"text": "ä" * (LONGEST // 2)}
        await hubs[0].tell(ALL, "text", long)
        assert await next_of(here) == Live(ALL, "text", long)
        assert await next_of(there) == Live(ALL, "resync", {})


async def test_a_slow_reader_is_told_to_read_again(hubs: tuple[Hub, Hub]) -> None:
    async with hubs[0].subscribe(ALL, WORK) as items:
        for number in range(MOST_WAITING + 1):
            await hubs[0].tell(ALL, "instance", {"id": number})
        await hubs[0].tell(ALL, "instance", {"id": "after"})
        assert await next_of(items) == Live(ALL, "resync", {})
        assert await next_of(items) == Live(WORK, "resync", {})
        assert await next_of(items) == Live(ALL, "instance", {"id": "after"})


async def test_subscriptions_end_when_the_hub_closes(hubs: tuple[Hub, Hub]) -> None:
    async with hubs[0].subscribe(ALL) as items:
        await hubs[0].tell(ALL, "instance", {})
        hubs[0].close()
        assert [item.kind async for item in items] == ["instance"]
    async with hubs[0].subscribe(ALL) as items:
        assert [item async for item in items] == []


async def test_after_a_lost_connection_readers_are_told_to_read_again(
    hubs: tuple[Hub, Hub], database: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "RETRY_SECONDS", 0.01)
    async with hubs[0].subscribe(ALL) as here, hubs[1].subscribe(ALL) as there:
        await postgres.say(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'pallas-workspaces-live' and datname = current_database()",
            database,
        )
        for items in (here, there):
            assert await next_of(items) == Live(ALL, "resync", {})
        await hubs[0].tell(ALL, "instance", {})
        assert await next_of(there) == Live(ALL, "instance", {})


async def test_a_connection_that_hangs_is_replaced(
    database: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("RETRY", 0.01), ("PING", 0.05), ("ANSWER", 0.3), ("CONNECT", 0.5)):
        monkeypatch.setattr(hub_module, f"{name}_SECONDS", seconds)
    async with linked(database) as link:
        there = make_url(link.url)
        url = make_url(database).set(host=there.host, port=there.port).render_as_string(hide_password=False)
        async with a_hub(url) as hub, hub.subscribe(ALL) as items:
            link.swallow()

            async def lost() -> bool:
                return not hub.listening.is_set()

            await until(lost)
            link.forward()
            assert await next_of(items) == Live(ALL, "resync", {})
