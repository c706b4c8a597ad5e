"""In which shard of the log a turn is made, and where one is that may have been made before.

A team moves by one write to the table, of which others hear later. So two processes may want to make the turn of one
id in two shards. Whoever has the newer table closes the id in the earlier shards first (`close`): a turn that was
claimed or cancelled there stays there, and any other is executed only in the shard where the newer one makes it. An id
that nobody else can use, as that of a call without an idempotency key, needs none of that.

With one shard nothing here asks the broker anything.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_bus.transport.polling import polling
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_bus.turnlog.claims import close, stored_outcome
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import SHARD_0_ONLY, SHARDS, TURN_REQUESTED
from pallas_contracts.errors import Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.shards import TeamShard
from pallas_contracts.turns import TurnRequested

_LOOK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Places:
    """Where teams are, as this process has heard. Made by `watch_places`; without a table there is one shard."""

    bus: Bus
    table: Table[TeamShard] | None = None

    def of(self, team: str) -> TeamShard:
        """Where a team is."""
        found = self.table.get(team) if self.table is not None else None
        return found or TeamShard(team=team)

    def place_new(self, request: TurnRequested) -> TurnRequested:
        """The request of a turn whose id nobody else can use, in the present shard of its team."""
        return _in(request, self.of(request.team).shard)

    async def place_shared(self, request: TurnRequested) -> TurnRequested:
        """The request of a turn whose id others may use, in the shard where it is or will be.

        Raises:
            Unavailable: the broker did not answer; the call may be repeated.
        """
        if self.table is None:
            return request
        ref = await close_earlier(self.bus, self.of(request.team), TurnRef.of(request))
        return _in(request, ref.shard)


@asynccontextmanager
async def watch_places(bus: Bus) -> AsyncGenerator[Places]:
    """Follow the table of teams inside the block, which begins once it was read."""
    if bus.shards == 1:
        yield Places(bus)
        return
    async with kv.watch(bus, SHARDS) as table:
        await table.synced.wait()
        yield Places(bus, table)


async def place_now(bus: Bus, team: str) -> TeamShard:
    """Where a team is, read from the table: no older than what any other process has acted on.

    Raises:
        Unavailable: the broker did not answer.
    """
    if bus.shards == 1 or team in SHARD_0_ONLY:
        return TeamShard(team=team)
    return await kv.get_newest(bus, SHARDS, team=team) or TeamShard(team=team)


async def place_shared(bus: Bus, request: TurnRequested) -> TurnRequested:
    """The same as `Places.place_shared` for a process without a table: the broker's is read.

    Raises:
        Unavailable: the broker did not answer; the call may be repeated.
    """
    ref = await close_earlier(bus, await place_now(bus, request.team), TurnRef.of(request))
    return _in(request, ref.shard)


async def in_each_shard(bus: Bus, ref: TurnRef) -> list[TurnRef]:
    """The turn in each shard in which it may be: the present one of its team first. Nothing is closed.

    Raises:
        Unavailable: the broker did not answer.
    """
    place = await place_now(bus, ref.team)
    return [ref.at(shard) for shard in (place.shard, *place.remembered(utc_now()))]


async def close_earlier(bus: Bus, where: TeamShard, ref: TurnRef) -> TurnRef:
    """Close an id that others may use in the earlier shards of its team. Returns the turn in the shard that is left.

    That is an earlier one if the turn has ended there, or if somebody has claimed or cancelled it there. An outcome
    comes first: its claims may have expired before it, and a cancel by id is stored also where the turn is not.

    Raises:
        Unavailable: the broker did not answer; the call may be repeated.
    """
    earlier = [ref.at(shard) for shard in where.remembered(utc_now())]
    for each, outcome in zip(earlier, await asyncio.gather(*(stored_outcome(bus, it) for it in earlier)), strict=True):
        if outcome is not None:
            return each
    for each in earlier:
        if await close(bus, each, where.shard) is not None:
            return each
    return ref.at(where.shard)


async def check_shards(bus: Bus) -> None:
    """Check that this process knows all shards that there are: it would make turns where nobody looks for them.

    Waits for the broker.

    Raises:
        Rejected: there are more (`bad_settings`).
    """
    there = await retry_while_unavailable(lambda: known_shards(bus), "ask how many shards there are", deadline=None)
    if there > bus.shards:
        raise Rejected(
            f"PALLAS_LOG_SHARDS is {bus.shards}, but the broker has {there} shards of the log: "
            f"set it to {there} for all that connect",
            code="bad_settings",
        )


@asynccontextmanager
async def all_shards(bus: Bus, on_shard: Callable[[int], object] = lambda _: None) -> AsyncGenerator[None]:
    """Know all shards inside the block, also those that are made later: for processes that read turns and take none.

    Waits for the broker. `on_shard` is called once for each shard.
    """
    known = 0

    async def look() -> None:
        nonlocal known
        bus.shards = max(bus.shards, await known_shards(bus))
        for shard in range(known, bus.shards):
            on_shard(shard)
        known = bus.shards

    await retry_while_unavailable(look, "ask how many shards there are", deadline=None)
    async with polling(bus, look, _LOOK_SECONDS):
        yield


async def known_shards(bus: Bus) -> int:
    """How many shards of the log the broker has; 1 while it has none.

    Raises:
        Unavailable: the broker does not answer, or its streams do not yet.
    """
    queues = TURN_REQUESTED.template.filter().replace("pallas.v1.", "pallas.*.")
    return max(1, len((await bus.api("STREAM.NAMES", {"subject": queues})).get("streams") or ()))


def _in(request: TurnRequested, shard: int) -> TurnRequested:
    return request.model_copy(update={"shard": shard}) if request.shard != shard else request
