"""A stream or bucket that the broker has lost is made again by its owner, with what processes know of it."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.builders import a_bucket
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.waiting import eventually, soon

from pallas_bus import leaders as leaders_module
from pallas_bus.connection import Bus
from pallas_bus.kv import get, put, watch
from pallas_bus.leaders import watch_leaders
from pallas_bus.streams import declare, stream_name, stream_names
from pallas_contracts.catalog import GATEWAY, TURN_LOG, WORKERS
from pallas_contracts.health import HealthAsked


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
