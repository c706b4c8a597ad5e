"""Reading all messages of a subject, also when that takes longer than the connection's timeout."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from pallas_bus import reads
from pallas_bus.client import BusClient
from pallas_bus.connection import Bus
from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now

TIMEOUT = 0.01


def record(position: int) -> reads.Record:
    return reads.Record("a.subject", position, utc_now(), b"", {})


@pytest.mark.parametrize(("newest", "complete"), [(2, True), (3, False)], ids=["complete", "replica behind"])
async def test_only_a_replica_that_is_behind_makes_a_long_read_fail(
    monkeypatch: pytest.MonkeyPatch, newest: int, complete: bool
) -> None:
    async def read_newest(*_: Any) -> reads.Record:
        return record(newest)

    async def read(*_: Any, **_given: Any) -> AsyncGenerator[reads.Record]:
        for position in (1, 2):
            await asyncio.sleep(2 * TIMEOUT)
            yield record(position)

    monkeypatch.setattr(reads, "read_newest", read_newest)
    monkeypatch.setattr(reads, "read", read)
    reading = reads.read_all(Bus("worker", "test", BusClient(), TIMEOUT), "A_STREAM", "a.subject")
    if complete:
        assert [found.seq for found in await reading] == [1, 2]
    else:
        with pytest.raises(Unavailable, match="not all messages"):
            await reading
