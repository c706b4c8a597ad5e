"""Every service is replaced by that of this release and back again, one beside the other, while calls are made.

Nothing is lost and nothing happens twice: each call has one answer and one effect, and turns that began at a worker of
one release go on at that of the other.
"""

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.integration.real_parts import until
from tests.postgres import PostgresServer
from tests.upgrade import previous
from tests.upgrade.load import Load, LongTurn
from tests.upgrade.surface import Surface
from tests.upgrade.world import NEW, OLD, World, a_world

from pallas_contracts.catalog import BUCKETS, STREAMS

OWNERS = {thing.owner for thing in (*STREAMS, *BUCKETS)}
"""They declare streams and buckets: replaced first, and on the way back last."""

SHORT_CALLS = 10


@pytest.fixture
def postgres(tmp_path: Path) -> Generator[PostgresServer]:
    """The databases of the services that have one."""
    with PostgresServer(tmp_path / "postgres") as server:
        yield server


@pytest.mark.timeout(300)
async def test_all_services_are_upgraded_and_rolled_back_under_load(tmp_path: Path, postgres: PostgresServer) -> None:
    async with a_world(tmp_path, postgres) as world:
        await upgraded_and_rolled_back(world)
    imported = {release: (tmp_path / f"nursery-{release}.log").read_text("utf-8") for release in (OLD, NEW)}
    assert imported[OLD].count(f"{previous.sources()}/") == len(world.services)
    assert str(previous.sources()) not in imported[NEW]
    broker = (tmp_path / "nats-server.log").read_text("utf-8")
    assert [line for line in broker.splitlines() if "iolation" in line] == []


async def upgraded_and_rolled_back(world: World) -> None:
    """Old, both, new, both, old."""
    load, owners = Load(world), sorted(OWNERS & set(world.services))
    others = sorted(set(world.services) - OWNERS)
    surface = Surface(world, load)
    await world.add(OLD, *world.services)
    await surface.prepare()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load.keep_calling())
        forward, through = load.long_turn("forward"), load.long_turn("through")
        await ticking(forward, through)

        await world.add(NEW, *owners)
        await world.add(NEW, *others)
        await surface.answers()
        await world.leave(*world.services)
        await surface.answers()
        await ticking(forward, through)
        assert await forward.end() == [OLD, NEW]

        back = load.long_turn("back")
        await ticking(back)
        await world.add(OLD, *world.services)
        await surface.answers()
        await world.leave(*others)
        await world.leave(*owners)
        await surface.answers()
        await ticking(back, through)
        assert await back.end() == [NEW, OLD]
        assert await through.end() == [OLD, NEW, OLD]
        load.stopping.set()
    assert len(load.answers) > SHORT_CALLS
    assert load.answers == {line: line for line in load.answers}
    assert {line: how_often for line, how_often in load.lines().items() if how_often != 1} == {}
    assert load.answers.keys() == {line for line in load.lines() if line.startswith("note")}


async def ticking(*turns: LongTurn) -> None:
    """Wait until each turn has gone on."""
    for turn in turns:
        before = turn.ticks

        async def gone_on(turn: LongTurn = turn, before: int = before) -> bool:
            return turn.ticks > before

        await until(gone_on)
