"""A turn of a team that has moved is found, followed and cancelled in the shard where it is."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, override
from unittest.mock import ANY

import pytest
from tests.builders import agent_definition, turn_outcome, turn_requested
from tests.conftest import Connecting
from tests.integration.bus.turns import attempt_of, following, read_to_end, summary_of, writer_of_the_cancel
from tests.waiting import Collected, soon

from pallas_bus.history.turns import TurnHistory
from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record
from pallas_bus.transport.streams import declare
from pallas_bus.turnlog.claims import claim_state, close, request_cancel, watch_claims
from pallas_bus.turnlog.cursor import BEGINNING
from pallas_bus.turnlog.followers import publish_left, watch_leaves
from pallas_bus.turnlog.lookup import TurnFound, find_turn
from pallas_bus.turnlog.places import check_shards, close_earlier, place_now
from pallas_bus.turnlog.queue import consumer_name, ensure_consumer, submit
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_calls.cancel_turn import cancel_by_id
from pallas_calls.keyed import leave_turn as leave_turn_module
from pallas_calls.keyed.leave_turn import leave_turn
from pallas_calls.pace import Pace
from pallas_calls.replay_choice import Choice
from pallas_calls.replay_many import ManyReplays
from pallas_calls.replay_requests import ReplayRequests
from pallas_calls.resume_turn import resume_turn
from pallas_cli.commands.agents import retire_team
from pallas_cli.turns.replays import ReplayRun
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import (
    AGENTS,
    GATEWAY,
    SHARDS,
    TURN_CLAIM,
    TURN_LOG,
    TURN_OBJECTS,
    TURN_QUEUE,
    WORKERS,
)
from pallas_contracts.errors import Rejected, Unavailable
from pallas_contracts.ids import replay_id
from pallas_contracts.message import utc_now
from pallas_contracts.shards import Earlier, TeamShard
from pallas_contracts.turns import CancelRequested, TurnRequested


@pytest.fixture
async def gateway(bus: Connecting, team: str) -> Bus:
    """A gateway with two shards. The team has just moved from shard 0 to shard 1."""
    made = await bus(GATEWAY)
    made.shards = 2
    await declare(made, TURN_QUEUE, TURN_LOG, TURN_OBJECTS, SHARDS)
    earlier = (Earlier(shard=0, until=utc_now() + timedelta(days=1)),)
    await kv.put(made, SHARDS, TeamShard(team=team, shard=1, earlier=earlier), team=team)
    return made


async def test_a_replica_that_lags_behind_does_not_say_where_a_team_is(
    gateway: Bus, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing_yet(*_: Any, **_given: Any) -> list[Record]:
        return []

    monkeypatch.setattr(kv, "read_last", nothing_yet)
    assert (await place_now(gateway, team)).shards == (1, 0)
    assert (await place_now(gateway, f"{team}x")).shards == (0,)


async def test_a_worker_hears_no_cancel_of_a_shard_where_its_turn_is_not(gateway: Bus, team: str) -> None:
    turn, other = (TurnRef.of(turn_requested(team)) for _ in range(2))
    heard = Collected[str]()
    shards = {turn.turn_id: 0}
    async with watch_claims(gateway, lambda claim, _: heard.add(claim.turn_id), team=team, shards=shards):
        await gateway.flush()
        await request_cancel(gateway, turn.at(1), "stored in each shard")
        await request_cancel(gateway, other.at(1), "not known here")
        assert await heard.count(1) == [other.turn_id]
        await request_cancel(gateway, turn, "stored in each shard")
        assert await heard.count(2) == [other.turn_id, turn.turn_id]


async def test_a_feed_takes_only_the_cancel_of_its_own_shard(gateway: Bus, team: str) -> None:
    request = turn_requested(team)
    ref, stored = TurnRef.of(request), (await submit(gateway, request)).seq
    async with following(gateway) as feeds:
        feed, later = feeds.open(ref), feeds.open(TurnRef.of(turn_requested(team)))
        await request_cancel(gateway, ref.at(1), "elsewhere")
        await request_cancel(gateway, later.ref, "behind it")
        await soon(anext(later))
        assert feed.empty
        await request_cancel(gateway, ref, "here")
        await withdraw_turn(gateway, request, stored)
        assert summary_of(await read_to_end(feed)) == ["cancelled: here", "cancelled"]


async def test_a_missed_leave_is_found_in_the_shard_where_it_is(gateway: Bus, team: str) -> None:
    ref, leaves = TurnRef.of(turn_requested(team)), Collected[tuple[int, int]]()
    position = await publish_left(gateway, ref.at(1))
    async with watch_leaves(gateway, lambda left, at: leaves.add((left.shard, at)), lambda: [ref], every=0.01):
        assert (1, position) in await leaves.count(1)


async def test_the_last_caller_leaves_a_turn_in_the_shard_to_which_it_has_moved(
    gateway: Bus, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leave_turn_module, "ANSWERED_WITHIN", 0.0)
    request = turn_requested(team).model_copy(update={"digest": "d"})
    ref, stored = TurnRef.of(request), await submit(gateway, request)
    assert await close(gateway, ref, 1) is None
    await soon(leave_turn(gateway, request, stored.seq, 0.0, lambda _: None))
    assert isinstance((await claim_state(gateway, ref.at(1))).claim, CancelRequested)


async def _claimed(bus: Bus, request: TurnRequested) -> None:
    """It ran when it was cancelled, and its worker has ended it."""
    writer = await attempt_of(bus, request)
    await cancel_by_id(bus, writer.ref, "late")
    await (await writer_of_the_cancel(writer)).conclude(turn_outcome(request, status="cancelled"))


async def _withdrawn(bus: Bus, request: TurnRequested) -> None:
    """It waited when it was cancelled, and has left its queue."""
    stored = await submit(bus, request)
    await cancel_by_id(bus, TurnRef.of(request), "early")
    await withdraw_turn(bus, request, stored.seq)


async def _in_its_queue(bus: Bus, request: TurnRequested) -> None:
    """It waited when it was cancelled, and is still in its queue."""
    await submit(bus, request)
    await cancel_by_id(bus, TurnRef.of(request), "early")


@pytest.mark.parametrize("cancelled", [_claimed, _withdrawn, _in_its_queue])
async def test_a_turn_that_was_cancelled_in_each_shard_is_resumed_where_it_is(
    gateway: Bus, team: str, cancelled: Callable[[Bus, TurnRequested], Awaitable[None]]
) -> None:
    request = turn_requested(team)
    await cancelled(gateway, request)
    async with following(gateway) as feeds:
        ref = TurnRef.of(request)
        resumed = await soon(resume_turn(gateway, feeds, ref, request.principal, BEGINNING, progress=True))
        assert resumed is not None
        assert resumed.feed.ref.shard == 0
        if cancelled is not _in_its_queue:
            assert summary_of(await read_to_end(resumed.feed))[-1] == "cancelled"


async def test_a_repeated_key_gets_the_outcome_although_the_turn_was_cancelled_later_in_a_third_shard(
    gateway: Bus, team: str
) -> None:
    request = turn_requested(team)
    ref = TurnRef.of(request)
    await (await attempt_of(gateway, request)).conclude(turn_outcome(request))
    await cancel_by_id(gateway, ref, "late")  # in shards 1 and 0
    later = utc_now() + timedelta(days=1)
    place = TeamShard(team=team, shard=2, earlier=(Earlier(shard=1, until=later), Earlier(shard=0, until=later)))
    assert (await close_earlier(gateway, place, ref)).shard == 0


async def test_a_repeated_key_gets_the_outcome_although_its_claim_has_expired(gateway: Bus, team: str) -> None:
    request = turn_requested(team)
    writer = await attempt_of(gateway, request)
    await writer.conclude(turn_outcome(request))
    claims = {"filter": writer.ref.on(TURN_CLAIM.template)}
    await gateway.api(f"STREAM.PURGE.{writer.ref.log}", claims)
    assert (await close_earlier(gateway, await place_now(gateway, team), writer.ref)).shard == 0
    assert await find_turn(gateway, request) == TurnFound(digest=None, ended=True, seen=ANY)


async def test_a_process_waits_for_the_number_of_shards_while_the_streams_of_the_broker_do_not_answer(
    gateway: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.shards, answer, silent = 1, gateway.api, iter([True, False])

    async def not_yet(subject: str, body: dict[str, Any]) -> dict[str, Any]:
        if next(silent):
            raise Unavailable(f"nobody answers on {subject!r}", code="no_responders")
        return await answer(subject, body)

    monkeypatch.setattr(gateway, "api", not_yet)
    with pytest.raises(Rejected, match="the broker has 2 shards of the log"):
        await soon(check_shards(gateway))


async def test_a_team_that_is_retired_leaves_no_queue_in_any_shard(gateway: Bus, team: str) -> None:
    await declare(gateway, AGENTS, WORKERS)
    await kv.put(gateway, AGENTS, agent_definition(team, "harper"), team=team, agent="harper")
    for shard in range(2):
        await ensure_consumer(gateway, team, "harper", max_concurrency=None, shard=shard)
    await retire_team(gateway, team, as_json=True)
    for queue in ("TURN_QUEUE", "TURN_QUEUE_1"):
        assert consumer_name(team, "harper") not in (await gateway.api(f"CONSUMER.NAMES.{queue}", {}))["consumers"]


class _AsItWas(ReplayRequests):
    """Makes the request of a replay as the old turn was asked, in its shard."""

    @override
    async def of(self, turn: TurnHistory, kept: TurnRequested | None, definition: AgentDefinition) -> TurnRequested:
        return turn_requested(turn.team, turn.agent).model_copy(update={"turn_id": replay_id(turn.turn_id)})


async def test_the_replay_of_a_turn_is_followed_where_its_team_is_by_now(gateway: Bus, team: str) -> None:
    old, definition = turn_requested(team), agent_definition(team, "harper")
    choice = Choice([TurnHistory(team, "harper", old.turn_id)], {f"{team}.harper": definition})
    many = ManyReplays(gateway, choice, Pace(100), _AsItWas(gateway, old.principal))
    await soon(many.queue_all())
    assert [ref.shard for ref in many.queued.values()] == [1]


async def test_a_replay_that_moves_while_it_waits_is_seen_to_end(gateway: Bus, team: str) -> None:
    old, replay = turn_requested(team), turn_requested(team).model_copy(update={"shard": 1})
    many = ManyReplays(gateway, Choice(), Pace(100), _AsItWas(gateway, old.principal))
    many.queued[old.turn_id] = TurnRef.of(replay).at(0)
    await (await attempt_of(gateway, replay)).conclude(turn_outcome(replay))
    run = ReplayRun(gateway, many, total=1)
    await soon(run.to_the_end(detach=False))
    assert run.ended.keys() == {replay.turn_id}
