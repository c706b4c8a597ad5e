"""Reads what is in the logs and queues of several shards: of turns that are known, or of all turns."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, count_by_subject, read, read_last
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.contract import Contract, Stream
from pallas_contracts.shards import name_in, stream_in, template_in

NO_IDS: Mapping[str, str] = {}


def shards_of(bus: Bus, stream: Stream) -> tuple[Stream, ...]:
    """The queue or log of each shard."""
    return tuple(stream_in(stream, shard) for shard in range(bus.shards))


async def read_last_of(bus: Bus, subjects: Mapping[str, TurnRef]) -> list[Record]:
    """Return the last message on each of these subjects, which are of logs, each with its turn.

    Raises:
        Unavailable: the broker did not answer.
    """
    by_log: dict[str, list[str]] = defaultdict(list)
    for subject, ref in subjects.items():
        by_log[ref.log].append(subject)
    return [record for log, some in by_log.items() for record in await read_last(bus, log, *some)]


async def read_shards(
    bus: Bus, contract: Contract[Any], ids: Mapping[str, str] = NO_IDS, *, since: datetime | None = None
) -> AsyncGenerator[Record]:
    """Yield the stored messages of a contract with these ids, one shard after the other.

    Raises:
        Unavailable: the broker did not answer.
    """
    assert contract.stream is not None
    for shard in range(bus.shards):
        subject = template_in(contract.template, shard).filter(**ids)
        async for record in read(bus, name_in(contract.stream, shard), subject, since=since):
            yield record


async def count_in_shards(bus: Bus, contract: Contract[Any], ids: Mapping[str, str] = NO_IDS) -> dict[str, int]:
    """The number of stored messages of a contract with these ids on each subject that has any, in all shards.

    Raises:
        Unavailable: the broker did not answer.
    """
    assert contract.stream is not None
    found: dict[str, int] = {}
    for shard in range(bus.shards):
        subject = template_in(contract.template, shard).filter(**ids)
        found |= await count_by_subject(bus, name_in(contract.stream, shard), subject)
    return found
