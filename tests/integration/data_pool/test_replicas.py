"""Which replica executes: agents that go, come back, move, and replicas that die, drain and lose the broker."""

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.agent_worker.lab import Followed
from tests.integration.broker.guarded import start
from tests.integration.data_pool.lab import Agent, Lab, a_pool, a_registration
from tests.integration.processes import a_service
from tests.integration.real_parts import OWNED, until
from tests.requirements import requirement
from tests.waiting import eventually, soon
from websockets.exceptions import ConnectionClosed

from pallas_bus import kv
from pallas_bus.connection import connect
from pallas_bus.streams import declare
from pallas_cli.commands.agents import retire_team
from pallas_cli.refused import Refused
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import AGENTS, DATA_TEAM, GATEWAY, POOL
from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal
from pallas_turns.feeds import follow_turns
from pallas_turns.queue import queue_state


async def unreachable(turn: Followed, *, retryable: bool) -> str:
    """Wait until a turn has ended because nobody reached its agent; returns the sentence."""
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.retryable) == ("failed", "agent_unreachable", retryable)
    return turn.text


async def test_a_turn_waits_for_an_agent_that_connects_again(lab: Lab) -> None:
    pool = await lab.pool()
    agent = await lab.registered(pool)
    await agent.socket.close()
    await lab.listed(pool, there=False)
    turn = await lab.call()
    agent = await lab.connect(pool)
    await agent.register(lab.agent)
    await agent.double()
    assert (await turn.outcome()).status == "completed"


@requirement("D-6.5")
async def test_turns_of_an_agent_that_stays_away_end_until_it_is_back(lab: Lab) -> None:
    pools = [await lab.pool(pool_patience="0.2") for _ in range(2)]
    agent = await lab.registered(pools[0])
    await agent.socket.close()
    assert "is not connected" in await unreachable(await lab.call(), retryable=True)
    for pool in pools:
        trouble = await lab.trouble(pool, lambda trouble: trouble is not None)
        assert trouble is not None
        assert (trouble.status, trouble.reason) == ("error", f"The agent {lab.agent!r} is not connected.")
    agent = await lab.connect(pools[1])
    await agent.register(lab.agent)
    for pool in pools:
        await lab.trouble(pool, lambda trouble: trouble is None)
    for _ in range(3):
        turn = await lab.call()
        await agent.double()
        assert (await turn.outcome()).status == "completed"


@requirement("D-8.1")
async def test_an_agent_that_moves_is_called_where_it_is(lab: Lab) -> None:
    first, second = await lab.pool(), await lab.pool()
    agent = await lab.registered(first)
    await agent.socket.close()
    await lab.listed(first, there=False)
    agent = await lab.registered(second)
    turn = await lab.call()
    await agent.double()
    assert (await turn.outcome()).status == "completed"


async def test_an_agent_without_a_way_to_be_called_says_so_at_once(lab: Lab) -> None:
    pool = await lab.pool(pool_patience="600")
    await lab.post("server.register", a_registration(lab.agent))
    assert "has registered without a way to be called" in await unreachable(await lab.call(), retryable=False)
    await lab.listed(pool, there=False)
    # It may connect later.
    agent = await lab.registered(pool)
    turn = await lab.call()
    await agent.double()
    assert (await turn.outcome()).status == "completed"


async def test_when_a_replica_is_killed_its_calls_are_repeated_only_if_they_may_be(
    lab: Lab, tmp_path: Path, soon_redelivered: None
) -> None:
    other, unsafe, safe = await lab.pool(), lab.agent, f"{lab.agent}-safe"
    async with a_service("data_pool", lab.nats_url, tmp_path, f"killed-{lab.agent}") as killed:
        await killed.ready()
        agent = await lab.connect(f"ws://127.0.0.1:{killed.port}/rpc")
        await agent.register(unsafe)
        await agent.register(safe, constraints={"idempotent": True})
        lost = await lab.call()
        effects = [await effect_of(agent)]
        lab.agent = safe
        repeated = await lab.call()
        effects.append(await effect_of(agent))
        killed.send(signal.SIGKILL)
        with pytest.raises(ConnectionClosed):
            await agent.hear()
        agent = await lab.connect(other)
        await agent.register(safe, constraints={"idempotent": True})
        await agent.register(unsafe)
        call = await agent.double()
        assert (call["params"]["meta"]["turn_id"], call["params"]["meta"]["attempt"]) == (repeated.request.turn_id, 2)
        assert (await repeated.outcome()).status == "completed"
        outcome = await lost.outcome()
        assert (outcome.status, outcome.code, outcome.retryable) == ("failed", "worker_lost", False)
        assert f"{unsafe}/double" in lost.text
        lab.agent = unsafe
        turn = await lab.call()
        effects.append(await effect_of(agent, answered=True))
        assert (await turn.outcome()).status == "completed"
        assert effects == [lost.request.turn_id, repeated.request.turn_id, turn.request.turn_id]


async def effect_of(agent: Agent, *, answered: bool = False) -> str:
    """Take the next call; returns its turn."""
    call = await (agent.double() if answered else agent.hear())
    return call["params"]["meta"]["turn_id"]


async def test_a_replica_that_drains_finishes_its_calls_and_sends_its_agents_away(lab: Lab) -> None:
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(a_pool(lab.nats_url))
        busy, idle = await lab.registered(pool), await lab.connect(pool)
        await idle.register(f"{lab.agent}-idle")
        turn = await lab.call()
        call = await busy.hear()
        draining = asyncio.create_task(pool.pool.drain())
        await closed(idle, 1012)
        await busy.answer(call, doubled=42)
        await closed(busy, 1012)
        await soon(draining)
        assert (await turn.outcome()).status == "completed"
        with pytest.raises(Exception, match="503"):
            await lab.connect(pool)


async def closed(agent: Agent, code: int) -> None:
    """Wait until the pool has closed the connection with a code."""
    with pytest.raises(ConnectionClosed) as error:
        await agent.hear()
    assert error.value.rcvd is not None
    assert error.value.rcvd.code == code


async def test_sockets_outlast_the_broker_and_everything_works_when_it_is_back(
    nats_server: NatsServer, bus: Connecting
) -> None:
    gateway = await bus(GATEWAY, url=nats_server.url)
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        lab = Lab(gateway, feeds, nats_server.url, stack)
        pool = await lab.pool()
        agent = await lab.registered(pool)
        pool.pool.executor.bus.timeout = 1.0
        nats_server.kill9()
        await eventually(lambda: not pool.pool.executor.bus.connected)
        answer = await agent.ask("server.register", a_registration(lab.agent, title="another"))
        assert answer["error"]["data"] == {"agent_id": lab.agent, "code": "unavailable", "retryable": True}
        # What is registered already needs no broker, and neither does a heartbeat.
        await agent.register(lab.agent)
        assert "result" in await agent.ask("agent.heartbeat", {"agent_id": lab.agent, "status": "active"})
        nats_server.restart()
        await eventually(lambda: pool.pool.executor.bus.connected)
        await agent.register(lab.agent, title="another")
        turn = await lab.call()
        await agent.double()
        assert (await turn.outcome()).status == "completed"


async def test_a_replica_publishes_what_a_dead_one_left_out_and_removes_what_it_left_over(lab: Lab) -> None:
    left = AgentDefinition(team=DATA_TEAM, agent=f"{lab.agent}-left", title="left", updated_at=utc_now())
    async with a_pool(lab.nats_url):
        await lab.post("server.register", a_registration(lab.agent))
    await kv.delete(lab.bus, AGENTS, team=DATA_TEAM, agent=lab.agent)
    await kv.put(lab.bus, AGENTS, left, team=DATA_TEAM, agent=left.agent)
    await lab.pool()

    async def healed() -> bool:
        return (
            await lab.definition() is not None and await kv.get(lab.bus, AGENTS, team="data", agent=left.agent) is None
        )

    await until(healed)


async def test_an_agent_that_unregisters_leaves_nothing(lab: Lab) -> None:
    pool = await lab.pool()
    agent = await lab.registered(pool, heartbeat_interval=60)
    answer = await agent.ask("server.unregister", {"agent_id": lab.agent})
    assert answer["result"] == {"agent_id": lab.agent, "unregistered": True}
    assert await lab.definition() is None
    await lab.listed(pool, there=False)
    with pytest.raises(Unavailable):
        await queue_state(lab.bus, DATA_TEAM, lab.agent)
    again = await agent.register(lab.agent)
    assert again["registered"] is True
    turn = await lab.call()
    await agent.double()
    assert (await turn.outcome()).status == "completed"


async def test_an_operator_retires_an_agent_that_somebody_else_has_left_behind(lab: Lab) -> None:
    await lab.pool()
    await lab.post("server.register", a_registration(lab.agent), Principal(type="token", id="gone"))
    await retire_team(lab.bus, f"{DATA_TEAM}/{lab.agent}", as_json=True)
    assert await lab.definition() is None
    with pytest.raises(Refused, match="there is no data agent"):
        await retire_team(lab.bus, f"{DATA_TEAM}/{lab.agent}", as_json=True)
    with pytest.raises(Refused, match="one by one"):
        await retire_team(lab.bus, DATA_TEAM, as_json=True)


async def test_the_rights_of_the_pool_are_enough_for_all_that_it_does(tmp_path: Path) -> None:
    guarded = start(tmp_path)
    try:
        async with AsyncExitStack() as stack:
            gateway = await stack.enter_async_context(connect(guarded.access(GATEWAY), GATEWAY))
            await declare(gateway, *OWNED)
            feeds = await stack.enter_async_context(follow_turns(gateway))
            lab = Lab(gateway, feeds, guarded.server.url, stack)
            pools = [await lab.pool(nats_seed=guarded.seed(POOL), pool_patience="0.2") for _ in range(2)]
            await lab.post("server.register", a_registration(lab.agent, heartbeat_interval=60))
            await lab.post("agent.heartbeat", {"agent_id": lab.agent, "status": "failed"})
            agent = await lab.registered(pools[0])
            turn = await lab.call(number=21, more="x" * 300_000)  # offloaded
            await agent.double()
            assert (await turn.outcome()).status == "completed"
            await agent.socket.close()
            await unreachable(await lab.call(), retryable=True)
            await lab.post("server.unregister", {"agent_id": lab.agent})
            assert await lab.definition() is None
            assert guarded.violations == []
    finally:
        guarded.server.close()
