"""A stream or bucket that the broker has lost is made again by its owner, with what processes know of it."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.builders import a_bucket
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.waiting import eventually, soon

from pallas_bus import kv as kv_module
from pallas_bus import leaders as leaders_module
from pallas_bus import streams as streams_module
from pallas_bus.connection import Bus
from pallas_bus.kv import delete, get, put, watch
from pallas_bus.leaders import Leaders, watch_leaders
from pallas_bus.reads import Record, read
from pallas_bus.streams import declare, stream_name, stream_names
from pallas_contracts.backups import Hold
from pallas_contracts.catalog import GATEWAY, HOLDS, TURN_LOG, WORKER, WORKERS
from pallas_contracts.errors import Conflict
from pallas_contracts.health import HealthAsked
from pallas_contracts.message import utc_now
from pallas_turns.executor import watch_holds


@pytest.fixture(autouse=True)
def asks_often() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name, seconds in (("EVERY", 0.1), ("AGAIN", 0.1), ("UNTIL_MADE", 0.5)):
            patched.setattr(leaders_module, name, seconds)
        yield


def asked(agent: str) -> HealthAsked:
    return HealthAsked(team="t", agent=agent)


async def lose(bus: Bus, stream: str) -> None:
    await bus.api(f"STREAM.DELETE.{stream}", {})


async def test_a_lost_bucket_has_its_entries_again_and_copies_take_what_is_stored_later(bus: Connecting) -> None:
    owner, reader = await bus("tester"), await bus("reader")
    bucket = a_bucket(HealthAsked)
    stream = stream_name(bucket)
    await declare(owner, bucket)
    for number in range(9):
        await put(owner, bucket, asked(f"before-{number}"), key="old" if number % 2 else "changes")
    async with (
        watch(owner, bucket) as owned,
        watch(reader, bucket) as read,
        watch_leaders(owner) as of_owner,
        watch_leaders(reader) as of_reader,
    ):
        await soon(owned.synced.wait())
        await soon(read.synced.wait())
        await eventually(lambda: stream in owner.seen & reader.seen)
        await lose(owner, stream)
        for leaders in (of_owner, of_reader):
            await eventually(lambda leaders=leaders: leaders.missing() == f"missing: {stream}")
        for leaders in (of_owner, of_reader):
            await eventually(lambda leaders=leaders: leaders.missing() is None)
        await eventually(lambda: read.entry("old")[1] < 8)
        assert dict(read.items()) == dict(owned.items()) == {"old": asked("before-7"), "changes": asked("before-8")}
        assert await get(reader, bucket, key="old") == asked("before-7")
        await put(owner, bucket, asked("after"), key="changes")
        await eventually(lambda: read.get("changes") == asked("after"))


async def test_a_process_that_has_not_noticed_takes_what_is_stored_later(bus: Connecting) -> None:
    owner, reader = await bus("tester"), await bus("reader")
    bucket = a_bucket(HealthAsked)
    await declare(owner, bucket)
    for key in ("a", "b", "b"):
        await put(owner, bucket, asked("before"), key=key)
    async with watch(reader, bucket, every=0.5) as read:
        await soon(read.synced.wait())
        await lose(owner, stream_name(bucket))
        await declare(owner, bucket)
        await put(owner, bucket, asked("after"), key="b")
        await eventually(lambda: read.get("b") == asked("after"))
        assert read.get("a") == asked("before")


async def test_a_new_replica_leaves_a_lost_bucket_to_one_that_runs_and_has_its_entries(bus: Connecting) -> None:
    owner, other = await bus("tester"), await bus("tester")
    bucket, beside = a_bucket(HealthAsked), a_bucket(HealthAsked)
    await declare(owner, bucket, beside)
    await put(owner, bucket, asked("before"), key="a")
    async with watch(owner, bucket) as owned, watch_leaders(owner):
        await soon(owned.synced.wait())
        await lose(owner, stream_name(bucket))
        await declare(other, bucket, beside)
        async with watch(other, bucket) as read:
            await eventually(lambda: read.get("a") == asked("before"))
        with pytest.raises(Conflict):
            await put(other, bucket, asked("stranger"), key="a", after=0)


async def test_whoever_makes_a_lost_bucket_writes_its_entries_at_once_and_a_hold_holds_meanwhile(
    bus: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaders_module, "UNTIL_MADE", 0)
    gateway, worker = await bus(GATEWAY), await bus(WORKER)
    await declare(gateway, HOLDS)
    hold = Hold(backup="b", taken_at=utc_now(), restored_at=utc_now(), restored_by="tests")
    for _ in range(2):
        await put(gateway, HOLDS, hold, hold="restore")
    async with watch(gateway, HOLDS) as owned, watch_holds(worker, by_setting=False) as holding:
        await soon(owned.synced.wait())
        leaders = Leaders(gateway, {})
        await leaders.ask()
        await lose(gateway, stream_name(HOLDS))
        for _ in range(2):
            await leaders.ask()
        assert leaders.missing() is None
        await eventually(lambda: owned.entry("restore")[1] == 1)
        assert await get(worker, HOLDS, hold="restore") == hold
        await delete(gateway, HOLDS, hold="restore")
        await eventually(lambda: "restore" not in holding.table)
        assert holding.why is not None
        await put(gateway, HOLDS, hold.model_copy(update={"released_at": utc_now()}), hold="restore")
        await eventually(lambda: holding.why is None)


async def test_a_bucket_that_nobody_makes_again_is_made_by_a_new_replica(
    bus: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_module, "OTHERS_MAKE_WITHIN", 0.3)
    owner, bucket, beside = await bus("tester"), a_bucket(HealthAsked), a_bucket(HealthAsked)
    await declare(owner, beside)
    await declare(owner, bucket, beside)
    assert await stream_names(owner) >= {stream_name(bucket), stream_name(beside)}


@pytest.mark.parametrize("again", [(), ("b",)])
async def test_a_copy_that_saw_nothing_of_the_loss_writes_its_entries_again_when_it_reads(
    bus: Connecting, again: tuple[str, ...]
) -> None:
    owner, other, bucket = await bus("tester"), await bus("tester"), a_bucket(HealthAsked)
    await declare(owner, bucket)
    for key in ("a", "b", "gone"):
        await put(owner, bucket, asked("before"), key=key)
    await delete(owner, bucket, key="gone")
    async with watch(owner, bucket) as owned:
        await soon(owned.synced.wait())
        await lose(owner, stream_name(bucket))
        await declare(other, bucket)
        for key in again:
            await put(other, bucket, asked("after"), key=key)
        await owned.refresh()
        assert dict(owned.items()) == {"a": asked("before"), "b": asked("after" if again else "before")}
        assert await get(other, bucket, key="a") == asked("before")


async def test_an_own_change_by_a_slow_clock_is_not_taken_for_a_bucket_that_was_made_again(
    bus: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, bucket, reads = await bus("tester"), a_bucket(HealthAsked), list[int]()

    def counted(*args: Any, after: int = 0, **kwargs: Any) -> AsyncGenerator[Record]:
        reads.append(after)
        return read(*args, after=after, **kwargs)

    await declare(owner, bucket)
    await put(owner, bucket, asked("before"), key="a")
    async with watch(owner, bucket) as owned:
        await soon(owned.synced.wait())
        monkeypatch.setattr(kv_module, "utc_now", lambda: datetime(2020, 1, 1, tzinfo=UTC))
        owned.changed("a", asked("after"), 2)
        for key in ("a", "b"):
            await put(owner, bucket, asked("after"), key=key)
        await eventually(lambda: "b" in owned)
        monkeypatch.setattr(kv_module, "read", counted)
        await owned.poll()
    assert reads == [1]


async def test_what_a_broker_with_another_key_cannot_read_is_not_overwritten(bus: Connecting) -> None:
    with NatsServer(encrypted=True) as server:
        gateway = await bus(GATEWAY, url=server.url)
        await declare(gateway, TURN_LOG, WORKERS)
        key = server.cipher
        await asyncio.to_thread(server.stop)
        server.cipher = key.replace("a key of tests", "another key")
        await asyncio.to_thread(server.start)
        async with watch_leaders(gateway) as leaders:
            await eventually(lambda: leaders.refused)
            assert leaders.missing() == "missing: KV_workers, TURN_LOG"
            await asyncio.to_thread(server.stop)
            server.cipher = key
            await asyncio.to_thread(server.start)
            await eventually(lambda: leaders.missing() is None)
            assert not leaders.refused
        assert "Error recreating" not in server.log
        assert await stream_names(gateway) == {"KV_workers", "TURN_LOG"}
