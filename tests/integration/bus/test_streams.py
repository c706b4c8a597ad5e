"""Declaring streams and buckets: the owner creates them, and other services wait for that."""

import asyncio
from dataclasses import replace

import pytest
from tests.builders import a_bucket, a_stream, subject_of
from tests.conftest import Connecting
from tests.waiting import soon

from pallas_bus.kv import get, put
from pallas_bus.streams import declare
from pallas_contracts.catalog import BUCKETS, STREAMS
from pallas_contracts.errors import Unavailable
from pallas_contracts.health import HealthAsked


async def test_owners_can_declare_the_whole_catalogue_repeatedly(bus: Connecting) -> None:
    for owner in sorted({thing.owner for thing in (*STREAMS, *BUCKETS)}):
        service = await bus(owner)
        owned = [thing for thing in (*STREAMS, *BUCKETS) if thing.owner == owner]
        await declare(service, *owned)
        await declare(service, *owned)


async def test_declaring_again_keeps_stored_messages_and_applies_new_limits(bus: Connecting) -> None:
    tester = await bus("tester")
    stream = a_stream(refuse_when_full=True, max_per_subject=1)
    await declare(tester, stream)
    await tester.put(subject_of(stream), b"kept")
    await declare(tester, replace(stream, max_per_subject=2))
    assert (await tester.put(subject_of(stream), b"second")).seq == 2


async def test_the_oldest_entries_of_a_bucket_give_way_to_new_ones_at_its_limit(bus: Connecting) -> None:
    tester = await bus("tester")
    bucket = replace(a_bucket(HealthAsked), most_bytes=1_000)
    await declare(tester, bucket)
    for number in range(20):
        await put(tester, bucket, HealthAsked(team="t", agent="a" * 60), key=f"k{number}")
    found = [await get(tester, bucket, key=f"k{number}") is not None for number in range(20)]
    assert found == sorted(found)
    assert 1 <= sum(found) < 10


async def test_two_replicas_of_an_owner_can_declare_at_once(bus: Connecting) -> None:
    replicas = [await bus("tester") for _ in range(2)]
    things = [a_stream() for _ in range(5)]
    await soon(asyncio.gather(*(declare(replica, *things) for replica in replicas)))


async def test_other_services_wait_until_the_owner_has_declared_a_stream(bus: Connecting) -> None:
    owner, other = await bus("tester"), await bus("somebody-else")
    stream, bucket = a_stream(), a_bucket(HealthAsked)
    waiting = asyncio.create_task(declare(other, stream, bucket))
    await declare(owner, stream)
    assert not waiting.done()
    await declare(owner, bucket)
    await soon(waiting)
    await put(other, bucket, HealthAsked(team="t", agent="a"), key="k")


async def test_a_stream_whose_owner_never_starts_is_unavailable_and_the_owner_is_named(bus: Connecting) -> None:
    other = await bus("somebody-else")
    stream = a_stream()
    with pytest.raises(Unavailable, match=stream.name) as missing:
        await declare(other, stream, timeout=0.3)
    assert missing.value.code == "no_stream"
