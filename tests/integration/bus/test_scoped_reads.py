"""A service that may read some teams only reads the same messages as others, by requests that the broker can check."""

from datetime import UTC, datetime
from itertools import count

import pytest
from tests.conftest import Connecting

from pallas_bus.connection import Bus
from pallas_bus.reads import Record, read, read_all, read_last, read_newest
from pallas_bus.streams import declare
from pallas_contracts.catalog import WORKER
from pallas_contracts.contract import Stream
from pallas_contracts.errors import Unavailable

_NAMES = count()


@pytest.fixture
async def owner(bus: Connecting) -> Bus:
    return await bus("tester")


@pytest.fixture
async def worker(bus: Connecting) -> Bus:
    return await bus(WORKER)


@pytest.fixture
async def stream(owner: Bus, team: str) -> Stream:
    """A new stream with 250 messages on five subjects."""
    made = Stream(f"SCOPED_{next(_NAMES)}_{team}", (f"scoped.{team}.>",), owner="tester", summary="of a test")
    await declare(owner, made)
    for number in range(250):
        await owner.put(f"scoped.{team}.{number % 5}", str(number).encode(), {"Of": "test"})
    return made


async def everything(bus: Bus, stream: Stream, subject: str, after: int = 0) -> list[Record]:
    return [record async for record in read(bus, stream.name, subject, after=after)]


async def test_a_restricted_reader_reads_the_same_messages_as_others(
    owner: Bus, worker: Bus, stream: Stream, team: str
) -> None:
    for subject in (f"scoped.{team}.>", f"scoped.{team}.3", f"scoped.{team}.*", f"scoped.{team}.none"):
        for after in (0, 100, 250):
            wanted = await everything(owner, stream, subject, after=after)
            found = await everything(worker, stream, subject, after=after)
            assert [(r.subject, r.seq, r.data, r.headers) for r in found] == [
                (r.subject, r.seq, r.data, r.headers) for r in wanted
            ]
            assert [abs((a.time - b.time).total_seconds()) < 1e-3 for a, b in zip(found, wanted, strict=True)].count(
                False
            ) == 0


async def test_a_restricted_reader_reads_from_a_time_on(worker: Bus, stream: Stream, team: str) -> None:
    now = datetime.now(UTC)
    assert [record async for record in read(worker, stream.name, f"scoped.{team}.1", since=now)] == []
    await worker.put(f"scoped.{team}.1", b"later")
    found = [record.data async for record in read(worker, stream.name, f"scoped.{team}.1", since=now)]
    assert found == [b"later"]


async def test_a_restricted_reader_reads_the_last_message_of_each_subject(
    owner: Bus, worker: Bus, stream: Stream, team: str
) -> None:
    subjects = [f"scoped.{team}.2", f"scoped.{team}.4"]
    wanted = await read_last(owner, stream.name, *subjects)
    found = await read_last(worker, stream.name, *subjects)
    assert sorted((r.subject, r.seq, r.data) for r in found) == sorted((r.subject, r.seq, r.data) for r in wanted)


async def test_a_restricted_reader_reads_the_newest_message_of_a_subject(
    worker: Bus, stream: Stream, team: str
) -> None:
    newest = await read_newest(worker, stream.name, f"scoped.{team}.2")
    assert newest is not None
    assert newest.data == b"247"
    assert await read_newest(worker, stream.name, f"scoped.{team}.none") is None


async def test_reading_the_newest_message_stores_nothing(owner: Bus, worker: Bus, stream: Stream, team: str) -> None:
    await read_newest(worker, stream.name, f"scoped.{team}.2")
    await read_newest(worker, stream.name, f"scoped.{team}.none")
    state = (await owner.api(f"STREAM.INFO.{stream.name}", {}))["state"]
    assert (state["messages"], state["last_seq"]) == (250, 250)


async def test_a_missing_stream_is_unavailable(worker: Bus) -> None:
    with pytest.raises(Unavailable) as refused:
        await everything(worker, Stream("NOWHERE", ("nowhere.>",), owner="tester", summary="none"), "nowhere.>")
    assert refused.value.code == "no_stream"


async def test_the_consumer_of_a_reader_that_stops_early_is_removed(
    owner: Bus, worker: Bus, stream: Stream, team: str
) -> None:
    async for record in read(worker, stream.name, f"scoped.{team}.>"):
        assert record.data == b"0"
        break
    consumers = (await owner.api(f"CONSUMER.LIST.{stream.name}", {}))["consumers"]
    assert {consumer["config"]["inactive_threshold"] for consumer in consumers} == {10_000_000_000}
    assert all(consumer["config"]["mem_storage"] for consumer in consumers)


async def test_all_messages_of_a_subject_are_read_with_one_consumer(
    owner: Bus, worker: Bus, stream: Stream, team: str
) -> None:
    subject = f"scoped.{team}.3"
    wanted, found = await read_all(owner, stream.name, subject), await read_all(worker, stream.name, subject)
    assert [(record.seq, record.data) for record in found] == [(record.seq, record.data) for record in wanted]
    assert len(found) == 50
    assert (await owner.api(f"STREAM.INFO.{stream.name}", {}))["state"]["consumer_count"] == 1
    assert await read_all(worker, stream.name, f"scoped.{team}.none") == []
    assert (await owner.api(f"STREAM.INFO.{stream.name}", {}))["state"]["consumer_count"] == 1
