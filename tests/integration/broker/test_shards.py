"""With users for two shards, a team is moved and its turns are forwarded without a violation."""

from collections.abc import Generator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from tests.builders import turn_requested
from tests.integration.broker.guarded import ALPHA, Guarded, start, worker
from tests.integration.real_parts import a_gateway, a_worker, until

from pallas_bus.history.turns import read_turns
from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus, connect
from pallas_bus.turnlog.claims import close
from pallas_bus.turnlog.logs import count_in_shards
from pallas_bus.turnlog.places import place_now
from pallas_bus.turnlog.queue import submit
from pallas_bus.turnlog.ref import TurnRef
from pallas_cli.broker_config.users import read_workers
from pallas_cli.shards.moving import move_team
from pallas_contracts.catalog import CLI, GATEWAY, SHARDS, TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.message import utc_now
from pallas_contracts.shards import Earlier, TeamShard


@pytest.fixture
def alone(tmp_path: Path) -> Generator[Guarded]:
    """A broker for this test alone."""
    guarded = start(tmp_path)
    yield guarded
    guarded.server.close()


async def consumers(bus: Bus) -> set[str]:
    """The teams that have consumers in the queue of shard 0."""
    names = (await bus.api(f"CONSUMER.NAMES.{TURN_QUEUE.name}", {"offset": 0}))["consumers"] or ()
    return {name.partition("__")[0] for name in names}


async def test_a_team_is_moved_with_the_rights_of_each_service(
    alone: Guarded, capsys: pytest.CaptureFixture[str]
) -> None:
    alone.folder.write_users(read_workers([[path] for path in alone.teams.values()], {}), shards=2)
    alone.server.reload()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        front = await enter(a_gateway(alone.server.url, nats_seed=alone.seed(GATEWAY), log_shards="2"))
        people = await enter(connect(alone.access(CLI), CLI))
        people.shards = 2
        seed = alone.seed(worker(ALPHA))
        await enter(a_worker(alone.server.url, alone.teams[ALPHA], nats_seed=seed, log_shards="2"))
        client = await enter(front.client(ALPHA, "bench"))
        assert not (await client.call_tool("say", {"text": "before"})).is_error
        await move_team(people, team="alhpa", shard=1, yes=True, as_json=True)
        assert "No agent of alhpa is known" in capsys.readouterr().err
        await move_team(people, team=ALPHA, shard=1, yes=True, as_json=True)
        assert "No agent" not in capsys.readouterr().err

        async def moved() -> bool:
            return front.gateway.calls.places.of(ALPHA).shard == 1

        await until(moved)
        assert not (await client.call_tool("say", {"text": "after"})).is_error
        left = turn_requested(ALPHA, "bench", tool="say", arguments={"text": "forwarded"})
        assert await close(people, TurnRef.of(left), 1) is None
        await submit(people, left)

        async def drained() -> bool:
            return not await count_in_shards(people, TURN_REQUESTED, {"team": ALPHA})

        await until(drained)
        turns = await read_turns(people)
        assert [turn.state for turn in turns] == ["completed"] * 3
        assert sorted(turn.shard for turn in turns) == [0, 1, 1]
        assert ALPHA in await consumers(people)
        long_ago = utc_now() - timedelta(days=100)
        left_long_ago = TeamShard(team=ALPHA, shard=1, earlier=(Earlier(shard=0, until=long_ago),))
        await kv.put(people, SHARDS, left_long_ago, team=ALPHA)
        await move_team(people, team=ALPHA, shard=1, yes=True, as_json=True)
        assert (await place_now(people, ALPHA)).shards == (1,)
        assert ALPHA not in await consumers(people)
        assert not (await client.call_tool("say", {"text": "as ever"})).is_error
    assert alone.violations == []
