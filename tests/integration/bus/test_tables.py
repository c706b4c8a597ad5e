"""A table is a bucket in memory, and has the stored entries whatever messages were lost."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.builders import a_bucket
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.link import linked
from tests.waiting import Collected, soon, within

from pallas_bus.connection import Bus
from pallas_bus.kv import Table, delete, get, put, put_nowait, watch
from pallas_bus.streams import bucket_subject, declare
from pallas_contracts.contract import Bucket
from pallas_contracts.errors import Conflict, PallasError
from pallas_contracts.health import HealthAsked

MORE_THAN_ONE_READ = 1200
"""More keys than one answer of the broker has."""

type Change = tuple[str, HealthAsked | None]


def asked(agent: str) -> HealthAsked:
    return HealthAsked(team="t", agent=agent)


@asynccontextmanager
async def watching(
    bus: Bus, bucket: Bucket[HealthAsked]
) -> AsyncGenerator[tuple[Table[HealthAsked], Collected[Change]]]:
    """A synchronised table, and the changes of which it notifies."""
    changes = Collected[Change]()
    async with watch(bus, bucket) as table:
        table.on_change(lambda key, value: changes.add((key, value)))
        await soon(table.synced.wait())
        yield table, changes


async def test_a_table_starts_with_the_stored_entries(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    await declare(tester, bucket)
    for key in ("b", "a"):
        await put(tester, bucket, asked(key), key=key)
    async with watching(tester, bucket) as (table, _):
        assert list(table.items()) == [("a", asked("a")), ("b", asked("b"))]
        assert (table.get("a"), table.get("c"), len(table), "a" in table) == (asked("a"), None, 2, True)


async def test_a_table_notifies_of_every_change_once(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    await declare(tester, bucket)
    async with watching(tester, bucket) as (_, changes):
        await put(tester, bucket, asked("one"), key="k")
        await put(tester, bucket, asked("one"), key="k")
        await put(tester, bucket, asked("two"), key="k")
        await delete(tester, bucket, key="k")
        await put(tester, bucket, asked("three"), key="k")
        await changes.count(4)
    assert changes.items == [("k", asked("one")), ("k", asked("two")), ("k", None), ("k", asked("three"))]


async def test_a_table_has_a_change_of_its_own_process_before_it_hears_of_it(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    await declare(tester, bucket)
    async with watching(tester, bucket) as (table, changes):
        first = await put(tester, bucket, asked("one"), after=0, key="k")
        table.changed("k", asked("one"), first)
        assert table.entry("k") == (asked("one"), first)
        with pytest.raises(Conflict):
            await delete(tester, bucket, after=first + 1, key="k")
        gone = await delete(tester, bucket, after=first, marked=60, key="k")
        table.changed("k", None, gone)
        table.changed("k", asked("one"), first)
        assert table.entry("k") == (None, gone)
        await put(tester, bucket, asked("two"), after=gone, key="k")
        await changes.count(3)
    assert changes.items == [("k", asked("one")), ("k", None), ("k", asked("two"))]


async def test_a_late_listener_gets_the_stored_entries_at_once(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    await declare(tester, bucket)
    await put(tester, bucket, asked("one"), key="k")
    async with watching(tester, bucket) as (table, _):
        changes: list[Change] = []
        table.on_change(lambda key, value: changes.append((key, value)))
        assert changes == [("k", asked("one"))]


async def test_a_failing_listener_affects_neither_other_listeners_nor_the_table(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    await declare(tester, bucket)
    for key in ("a", "bad", "c"):
        await put(tester, bucket, asked(key), key=key)

    def listen(key: str, _value: HealthAsked | None) -> None:
        if key == "bad":
            raise OverflowError

    async with watch(tester, bucket) as table:
        changes = Collected[str]()
        table.on_change(listen)
        table.on_change(lambda key, _value: changes.add(key))
        await soon(table.synced.wait())
        assert list(changes.items) == ["a", "bad", "c"]
        assert len(table) == len(changes.items)


async def test_a_table_may_be_watched_before_its_bucket_exists(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    async with watch(tester, bucket) as table:
        assert not table.synced.is_set()
        await declare(tester, bucket)
        await soon(table.synced.wait())


async def test_a_table_may_have_more_keys_than_one_answer_of_the_broker(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    await declare(tester, bucket)
    await asyncio.gather(*(put(tester, bucket, asked("a"), key=f"k{n}") for n in range(MORE_THAN_ONE_READ)))
    async with watching(tester, bucket) as (table, _):
        assert len(table) == MORE_THAN_ONE_READ


async def test_presence_expires_when_it_is_no_longer_written(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked, ttl=1.0)
    await declare(tester, bucket)
    async with watching(tester, bucket) as (table, changes):
        await put_nowait(tester, bucket, asked("one"), key="k")
        async with within(4.0):
            await changes.until(lambda items: items == [("k", asked("one")), ("k", None)])
        assert "k" not in table
        await put_nowait(tester, bucket, asked("one"), key="k")
        await changes.until(lambda items: items[2:] == [("k", asked("one"))])
    assert await get(tester, bucket, key="k") == asked("one")


@pytest.mark.parametrize("kill", [False, True], ids=["SIGTERM", "SIGKILL"])
async def test_a_table_catches_up_after_a_disconnect(nats_server: NatsServer, bus: Connecting, kill: bool) -> None:
    async with linked(nats_server.url) as link:
        reader, writer = await bus("reader", url=link.url), await bus("tester", url=nats_server.url)
        bucket = a_bucket(HealthAsked)
        await declare(writer, bucket)
        for key in ("changed", "deleted", "same"):
            await put(writer, bucket, asked("old"), key=key)
        async with watching(reader, bucket) as (table, changes):
            await link.cut()
            back = asyncio.Event()
            writer.on_reconnect(lambda: _set(back))
            nats_server.restart(kill=kill)
            await soon(back.wait())
            await put(writer, bucket, asked("new"), key="changed")
            await delete(writer, bucket, key="deleted")
            await put(writer, bucket, asked("new"), key="added")
            await link.mend()
            await changes.count(6)
            assert dict(table.items()) == {"added": asked("new"), "changed": asked("new"), "same": asked("old")}
            assert sorted(changes.items[3:], key=lambda change: change[0]) == [
                ("added", asked("new")),
                ("changed", asked("new")),
                ("deleted", None),
            ]


async def _set(event: asyncio.Event) -> None:
    event.set()


async def test_an_unreadable_entry_does_not_hide_others(bus: Connecting, caplog: pytest.LogCaptureFixture) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    await declare(tester, bucket)
    await tester.put(bucket_subject(bucket, "bad"), b"{not json")
    await put(tester, bucket, asked("one"), key="good")
    async with watching(tester, bucket) as (table, _):
        assert list(table.items()) == [("good", asked("one"))]
    assert "unreadable entry" in caplog.text
    with pytest.raises(PallasError) as refused:
        await get(tester, bucket, key="bad")
    assert refused.value.code == "undecodable"


async def test_an_entry_that_becomes_unreadable_keeps_its_last_readable_value(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    await declare(tester, bucket)
    async with watching(tester, bucket) as (table, changes):
        await put(tester, bucket, asked("one"), key="k")
        await tester.put(bucket_subject(bucket, "k"), b"{not json")
        await put(tester, bucket, asked("two"), key="later")
        await changes.count(2)
        assert table.get("k") == asked("one")


async def test_a_listener_that_fails_on_one_entry_is_notified_of_the_next(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    await declare(tester, bucket)
    failing, others = Collected[str](), Collected[str]()

    def fails(key: str, _value: HealthAsked | None) -> None:
        failing.add(key)
        raise ValueError(key)

    async with watch(tester, bucket) as table:
        table.on_change(fails)
        table.on_change(lambda key, _value: others.add(key))
        await soon(table.synced.wait())
        for key in ("a", "b"):
            await put(tester, bucket, asked(key), key=key)
        assert await others.count(2) == await failing.count(2) == ["a", "b"]


async def test_reading_or_deleting_a_missing_key_is_no_error(bus: Connecting) -> None:
    tester, bucket = await bus("tester"), a_bucket(HealthAsked)
    await declare(tester, bucket)
    await delete(tester, bucket, key="k")
    assert await get(tester, bucket, key="k") is None
