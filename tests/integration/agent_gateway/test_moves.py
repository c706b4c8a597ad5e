"""A team moves to another shard of the log: its turns are executed once, whoever has heard of it and who has not."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.builders import turn_outcome, turn_requested
from tests.conftest import Connecting
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import WAIT, Platform, make_platform
from tests.integration.agent_gateway.test_keys import LOG_KEY, keyed
from tests.integration.processes import a_service
from tests.integration.real_parts import Front, a_worker, until
from tests.waiting import eventually, soon

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read_newest
from pallas_bus.turnlog.claims import claim, request_cancel
from pallas_bus.turnlog.cursor import BEGINNING
from pallas_bus.turnlog.logs import count_in_shards, read_shards
from pallas_bus.turnlog.places import close_earlier
from pallas_bus.turnlog.queue import ensure_consumer, submit
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.writer import TurnWriter
from pallas_calls.observer import Observer
from pallas_contracts.catalog import GATEWAY, SHARDS, TURN_CLAIM, TURN_JOINED, TURN_OUTCOME, TURN_REQUESTED
from pallas_contracts.message import utc_now
from pallas_contracts.shards import Earlier, TeamShard, shard_of
from pallas_contracts.turns import Claimed, TurnClaim, TurnOutcome, TurnRequested
from pallas_executor.executor import Executor

CALLS = 12


@pytest.fixture
async def shards(bus: Connecting, nats_url: str, team: str, tmp_path: Path) -> AsyncGenerator[Platform]:
    """A platform whose log has two shards, on the module's broker."""
    connection = await bus(GATEWAY)
    connection.shards = 2
    async for made in make_platform(connection, nats_url, team, tmp_path):
        yield made


def moved(team: str) -> TeamShard:
    """The entry of a team that has just moved from shard 0 to shard 1."""
    return TeamShard(team=team, shard=1, earlier=(Earlier(shard=0, until=utc_now() + timedelta(days=1)),))


async def drained(bus: Bus, team: str) -> None:
    """Wait until the team has no turn in any queue."""

    async def look() -> bool:
        return not await count_in_shards(bus, TURN_REQUESTED, {"team": team})

    await until(look, 40)


async def executed(bus: Bus, team: str) -> tuple[Counter[str], Counter[str]]:
    """How often each turn was claimed to be executed, and its outcomes, in all shards."""
    ids = {"team": team}
    claims = [TurnClaim.model_validate_json(it.data) async for it in read_shards(bus, TURN_CLAIM, ids)]
    outcomes = [TurnOutcome.model_validate_json(it.data) async for it in read_shards(bus, TURN_OUTCOME, ids)]
    runs = Counter(it.turn_id for it in claims if isinstance(it.claim, Claimed) and not it.claim.ends)
    return runs, Counter(it.turn_id for it in outcomes)


def effects(file: Path) -> int:
    """How often the tool `effect` has had its effect."""
    written = file.with_suffix(".effects")
    return len(written.read_text().split()) if written.exists() else 0


def orders() -> Iterator[tuple[str, ...]]:
    """The older gateway submits; the newer one closes, then submits; a worker comes. Somebody cancels, or nobody."""
    for order in permutations(("older", "close", "newer", "work")):
        if order.index("close") < order.index("newer"):
            yield order
            yield (order[0], "cancel", *order[1:])


class Once:
    """One turn of a key that two gateways make, of which only one knows that the team has moved."""

    def __init__(self, bus: Bus, worker: Executor, request: TurnRequested) -> None:
        self.bus, self.worker, self.request = bus, worker, request
        self.place, self.ref = moved(request.team), TurnRef.of(request)

    async def run(self, order: tuple[str, ...]) -> None:
        """Carry out the steps in this order, and let the worker finish."""
        steps: dict[str, Callable[[], Awaitable[object]]] = {
            "older": lambda: submit(self.bus, self.request),
            "close": self.close,
            "newer": lambda: submit(self.bus, self.request.model_copy(update={"shard": self.ref.shard})),
            "cancel": lambda: request_cancel(self.bus, TurnRef.of(self.request), "a test"),
            "work": self.work,
        }
        for step in (*order, "work"):
            await steps[step]()

    async def close(self) -> None:
        """Find the shard in which the newer gateway makes or joins the turn."""
        self.ref = await close_earlier(self.bus, self.place, self.ref, announced=True)

    async def work(self) -> None:
        """Execute what is queued."""
        self.hold(False)
        await drained(self.bus, self.request.team)
        self.hold(True)

    def hold(self, held: bool) -> None:
        """Whether the worker takes turns."""
        self.worker.holding.by_setting = held
        self.worker.holding.on_change()


async def test_a_key_makes_one_turn_in_every_order_of_two_gateways(shards: Platform, tmp_path: Path) -> None:
    await shards.gateway(log_shards="2")
    await kv.put(shards.bus, SHARDS, moved(shards.team), team=shards.team)
    file = shards.file()
    file.touch()
    shards.describe()
    worker = await shards.stack.enter_async_context(a_worker(shards.url, shards.folder, hold="true", log_shards="2"))
    runs = Counter[str]()
    for order in orders():
        request = turn_requested(shards.team, "bench", tool="effect", arguments={"file": str(file)})
        request = request.model_copy(update={"digest": "d"})
        await soon(Once(shards.bus, worker, request).run(order))
        runs, ends = await executed(shards.bus, shards.team)
        assert ends[request.turn_id] == 1, order
        assert runs[request.turn_id] in ((0, 1) if "cancel" in order else (1,)), order
    assert effects(file) == sum(runs.values())


async def test_a_team_moves_under_load_while_tables_are_stale_and_a_worker_is_killed(
    shards: Platform, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    shards.describe()
    stale, fresh = [await shards.gateway(log_key=LOG_KEY, log_shards="2") for _ in range(2)]
    late = await shards.stack.enter_async_context(a_worker(shards.url, shards.folder, log_shards="2"))
    settings = {"teams": str(shards.folder), "slots": "4", "log_shards": "2"}
    killed = await shards.stack.enter_async_context(
        a_service("agent_worker", shards.url, tmp_path, "killed", **settings)
    )
    await killed.ready()
    await shards.served(stale)
    await shards.served(fresh)
    # One gateway and one worker never hear that the team has moved.
    stale.gateway.calls.places = replace(stale.gateway.calls.places, table=kv.Table(shards.bus, SHARDS))
    late.places[shards.team] = kv.Table(shards.bus, SHARDS)
    files = [tmp_path / f"turn{number}" for number in range(CALLS)]
    calls = [asyncio.create_task(_call(http, front, shards, file)) for file in files for front in (stale, fresh)]
    await eventually(lambda: any(file.with_suffix(".effects").exists() for file in files))
    await _move(shards, fresh)
    again = [asyncio.create_task(_call(http, front, shards, file)) for file in files for front in (fresh, stale)]
    killed.process.kill()
    newer = await shards.stack.enter_async_context(a_worker(shards.url, shards.folder, log_shards="2"))
    assert newer
    for file in files:
        file.touch()
    answers = await soon(asyncio.gather(*calls, *again), 60)
    await drained(shards.bus, shards.team)
    _, ends = await executed(shards.bus, shards.team)
    assert set(ends.values()) == {1}
    assert len(ends) == CALLS
    for number, file in enumerate(files):
        [answer] = {answers[start + 2 * number + front] for start in (0, 2 * CALLS) for front in (0, 1)}
        # The record comes before the effect: of a worker that was killed between them, there is no effect.
        assert effects(file) in ((0, 1) if answer == "worker_lost" else (1,))


async def test_a_stale_gateway_joins_a_turn_that_has_left_its_shard(
    shards: Platform, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    stale, fresh = await _stale_and_fresh(shards)
    first = asyncio.create_task(_call(http, stale, shards, tmp_path / "go"))
    await until(lambda: _queued(shards, 0))
    await _move(shards, fresh)
    second = asyncio.create_task(_call(http, fresh, shards, tmp_path / "go"))
    await until(lambda: _queued(shards, 1))
    await shards.stack.enter_async_context(a_worker(shards.url, shards.folder, log_shards="2"))
    await until(lambda: _left(shards, 0))
    third = asyncio.create_task(_call(http, stale, shards, tmp_path / "go"))
    await eventually(lambda: stale.counted("pallas_turns_joined_total", team=shards.team, agent="bench") == 1)
    (tmp_path / "go").touch()
    assert len(set(await soon(asyncio.gather(first, second, third)))) == 1
    assert await soon(_call(http, stale, shards, tmp_path / "go")) == first.result()
    assert effects(tmp_path / "go") == 1


async def test_a_key_with_other_arguments_is_refused_although_its_first_call_waits_in_the_earlier_shard(
    shards: Platform, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    stale, fresh = await _stale_and_fresh(shards)
    first = asyncio.create_task(_call(http, stale, shards, tmp_path / "first", key="k"))
    await until(lambda: _queued(shards, 0))
    await _move(shards, fresh)
    second = asyncio.create_task(_call(http, fresh, shards, tmp_path / "second", key="k"))
    await until(lambda: _queued(shards, 1))
    for name in ("first", "second"):
        (tmp_path / name).touch()
    await shards.stack.enter_async_context(a_worker(shards.url, shards.folder, log_shards="2"))
    answers = await soon(asyncio.gather(first, second), 30)
    assert [answer == "key_reused" for answer in answers].count(True) == 1
    assert [(tmp_path / f"{name}.effects").exists() for name in ("first", "second")].count(True) == 1


async def test_whoever_resumes_the_stream_of_a_key_is_announced_in_the_shard_of_its_turn(shards: Platform) -> None:
    front = await shards.gateway(log_key=LOG_KEY, log_shards="2")
    await kv.put(shards.bus, SHARDS, moved(shards.team), team=shards.team)
    request = turn_requested(shards.team, "bench").model_copy(update={"digest": "d", "shard": 1})
    ref = TurnRef.of(request)
    await submit(shards.bus, request)
    calls, named_by_id = front.gateway.calls, TurnRef(ref.team, ref.agent, ref.turn_id)
    resumed = asyncio.create_task(calls.resume(named_by_id, request.principal, BEGINNING, Observer(), progress=False))
    await eventually(lambda: ref in calls.followers.followed())
    fence = await claim(shards.bus, ref, Claimed(attempt=1, worker="w", digest="d", at=utc_now()), after=0)

    async def announced() -> bool:
        return await read_newest(shards.bus, ref.log, ref.on(TURN_JOINED.template)) is not None

    await until(announced)
    await TurnWriter(shards.bus, ref, 1, fence).conclude(turn_outcome(request))
    assert await soon(resumed) is not None


async def _stale_and_fresh(shards: Platform) -> tuple[Front, Front]:
    """Two gateways, of which the first never hears that the team has moved, with an agent that no worker hosts yet."""
    shards.describe()
    await shards.publish(tools=(WAIT.model_copy(update={"name": "effect"}),))
    for shard in range(2):
        await ensure_consumer(shards.bus, shards.team, "bench", max_concurrency=None, shard=shard)
    stale, fresh = [await shards.gateway(log_key=LOG_KEY, log_shards="2") for _ in range(2)]
    await shards.served(stale)
    await shards.served(fresh)
    stale.gateway.calls.places = replace(stale.gateway.calls.places, table=kv.Table(shards.bus, SHARDS))
    return stale, fresh


async def _move(shards: Platform, fresh: Front) -> None:
    """Move the team, and wait until a gateway has heard of it."""
    await kv.put(shards.bus, SHARDS, moved(shards.team), team=shards.team)
    await eventually(lambda: fresh.gateway.calls.places.of(shards.team).shard == 1)


async def _left(platform: Platform, shard: int) -> bool:
    return not await _queued(platform, shard)


async def _queued(platform: Platform, shard: int) -> bool:
    ids = {"team": platform.team}
    return any(shard_of(subject) == shard for subject in await count_in_shards(platform.bus, TURN_REQUESTED, ids))


async def _call(http: httpx.AsyncClient, front: Front, platform: Platform, file: Path, key: str = "") -> str:
    """Call the tool with a key, or that of a file, again while the platform says so; the answer as text."""
    params = keyed("effect", {"file": str(file)}, key=key or file.name)
    while True:
        answers = await wire.answers(http, front.url(platform.team, "bench"), wire.modern("tools/call", params))
        result: dict[str, Any] = answers[-1]["result"]
        error: dict[str, Any] = result.get("_meta", {}).get("pallas/error", {})
        if error.get("code") != "busy":
            return str(error.get("code") or result["content"])
        await asyncio.sleep(error["retry_after_ms"] / 1000)
