"""The log in shards (docs/adr/0029): names and subjects of each shard, and where a team is.

A shard is a queue and a log, and holds whole teams. Shard 0 has the names and subjects of the catalogue; those of the
others follow from them. The streams that are not about single turns have no shards.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Annotated, Any

from pydantic import Field

from pallas_contracts.contract import Bucket, Contract, Stream, Template
from pallas_contracts.ids import Token
from pallas_contracts.message import Message

MOST_SHARDS = 64

type Shard = Annotated[int, Field(ge=0, lt=MOST_SHARDS)]

ShardOfTurn = Annotated[int, Field(ge=0, lt=MOST_SHARDS, exclude_if=lambda shard: shard == 0)]
"""The shard of a turn. A message about a turn of shard 0 does not have it."""

KnownShards = Annotated[int, Field(ge=1, le=MOST_SHARDS, exclude_if=lambda shards: shards == 1)]
"""How many shards a process knows. The message of one that knows a single shard does not have it."""


class Earlier(Message):
    """A shard where a team was. The log there may have turns of it until `until`."""

    shard: Shard
    until: datetime


class TeamShard(Message):
    """Where a team is (KV bucket `shards`). A team without an entry is in shard 0, and was in no other.

    New turns go to `shard`. `earlier` are the shards where it was, the last one first: executors pull from them, too.
    """

    team: Token
    shard: Shard = 0
    earlier: tuple[Earlier, ...] = ()
    by: str | None = None
    at: datetime | None = None

    @property
    def shards(self) -> tuple[int, ...]:
        """All shards that may have turns of the team, the present one first."""
        return self.shard, *(each.shard for each in self.earlier)

    def remembered(self, now: datetime) -> tuple[int, ...]:
        """The earlier shards whose log may have turns of the team."""
        return tuple(each.shard for each in self.earlier if now < each.until)


def prefix_of(shard: int) -> str:
    """What all subjects of a shard begin with."""
    return f"pallas.s{shard}." if shard else "pallas.v1."


def shard_of(subject: str) -> int:
    """The shard of a subject of a queue or log."""
    second = subject.split(".", 2)[1]
    return int(second[1:]) if second[:1] == "s" else 0


def template_in(template: Template, shard: int) -> Template:
    """A template of a queue or log in a shard."""
    return _template_in(template, shard) if shard else template


@cache
def _template_in(template: Template, shard: int) -> Template:
    return Template(_in(template.text, shard))


def name_in(stream: Stream, shard: int) -> str:
    """The name of a queue or log in a shard."""
    return f"{stream.name}_{shard}" if shard else stream.name


def stream_in(stream: Stream, shard: int) -> Stream:
    """A queue or log in a shard."""
    if not shard:
        return stream
    subjects = tuple(_in(subject, shard) for subject in stream.subjects)
    return replace(stream, name=name_in(stream, shard), subjects=subjects)


def contracts_in(contract: Contract[Any], shards: int) -> Iterator[Contract[Any]]:
    """The contract in each of so many shards; one that has no shards, as it is."""
    yield contract
    if contract.stream is not None and contract.stream.sharded:
        for shard in range(1, shards):
            stream, template = stream_in(contract.stream, shard), template_in(contract.template, shard)
            yield replace(contract, stream=stream, template=template)


def streams_in(streams: Iterable[Stream], shards: int) -> tuple[Stream, ...]:
    """The streams, and those of each further shard behind the ones of shard 0."""
    return tuple(stream_in(stream, shard) for stream in streams for shard in range(shards if stream.sharded else 1))


def buckets_in(buckets: tuple[Bucket[Any], ...], table: Bucket[TeamShard], shards: int) -> tuple[Bucket[Any], ...]:
    """The buckets, with the table of teams where there is more than one shard."""
    return (*buckets, table) if shards > 1 else buckets


def _in(subject: str, shard: int) -> str:
    return prefix_of(shard) + subject.removeprefix("pallas.v1.")
