"""A team that stores more than its share of the broker's store is refused; the other teams are not."""

import asyncio

import pytest
from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.pipelines.lab import a_replica
from tests.integration.real_parts import a_gateway
from tests.waiting import soon

from pallas_bus.streams import declare, stream_name
from pallas_contracts.catalog import CALLS, PIPELINE_CACHE, TURN_LOG, TURN_OBJECTS, TURN_QUEUE
from pallas_contracts.errors import Unavailable
from pallas_turns.claims import TurnRef
from pallas_turns.content import drop, offload
from pallas_turns.queue import submit
from pallas_turns.store import StoreShares, StoreUse

MIB = 1024**2


async def test_only_the_team_above_its_share_is_refused_and_only_until_what_it_stored_is_gone(
    nats_server: NatsServer, bus: Connecting
) -> None:
    gateway = await bus("agent-gateway", url=nats_server.url)
    await declare(gateway, TURN_QUEUE, TURN_LOG, TURN_OBJECTS)
    for number in range(20):
        await submit(gateway, turn_requested("small"))
        await offload(gateway, TurnRef("small", "a", f"small{number}"), "x", bytes(50_000))
        await offload(gateway, TurnRef("big", "a", f"big{number}"), "x", bytes(300_000))
    shares = StoreShares(StoreUse(gateway), 10 * MIB, 0.5)
    await soon(shares.measure())

    refused = shares.check("big")
    assert refused is not None
    assert (refused.code, refused.limit) == ("busy", "team_store")
    assert refused.retry_after_ms
    assert "'big'" in refused.message
    assert "of 5 MiB" in refused.message
    assert shares.check("small") is None
    assert shares.use.teams["big"] == pytest.approx(6_000_000, rel=0.2)

    await asyncio.gather(*(drop(gateway, TurnRef("big", "a", f"big{number}")) for number in range(20)))
    await soon(shares.measure())
    assert shares.check("big") is None


async def test_the_last_part_of_the_store_is_not_for_new_turns(nats_server: NatsServer, bus: Connecting) -> None:
    gateway = await bus("agent-gateway", url=nats_server.url)
    await declare(gateway, TURN_QUEUE, TURN_LOG, TURN_OBJECTS)
    for team in ("a", "b"):
        await offload(gateway, TurnRef(team, "a", "t"), "x", bytes(MIB))
    shares = StoreShares(StoreUse(gateway), 2 * MIB + MIB // 8, 0.6)
    await soon(shares.measure())
    refused = shares.check("c")
    assert refused is not None
    assert (refused.code, refused.limit) == ("busy", "store")


async def test_a_full_store_is_told_at_once(bus: Connecting) -> None:
    with NatsServer(store="1MB") as server:
        gateway = await bus("agent-gateway", url=server.url)
        await declare(gateway, TURN_QUEUE, TURN_LOG, TURN_OBJECTS)
        with pytest.raises(Unavailable) as full:
            await offload(gateway, TurnRef("a", "a", "t"), "x", bytes(4 * MIB))
        assert full.value.code == "queue_full"


async def test_gateways_and_pipelines_start_at_a_small_store(bus: Connecting) -> None:
    small = 200 * MIB
    with NatsServer(store="200MB") as server:
        async with a_gateway(server.url, store_bytes=str(small)):
            async with a_replica(server.url, store_bytes=str(small)) as replica:
                assert replica.url
            api = (await bus("cli", url=server.url)).api
            infos = [await api(f"STREAM.INFO.{stream_name(bucket)}", {}) for bucket in (CALLS, PIPELINE_CACHE)]
    assert [info["config"]["max_bytes"] for info in infos] == [small // 32] * 2
