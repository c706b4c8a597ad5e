"""What the pool does on a broker with rights for each service: nothing of it is denied."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.integration.broker.guarded import Guarded, start
from tests.integration.real_parts import a_gateway, a_process, until
from tests.waiting import soon

from pallas_bus import ask, kv
from pallas_bus.connection import connect
from pallas_bus.streams import declare
from pallas_contracts.agents import AgentDefinition, AgentRead, JsonObject, ToolDefinition
from pallas_contracts.auth import ResolveBearer, Resolved
from pallas_contracts.catalog import (
    AGENTS,
    ASK_POOL,
    DATA_AGENTS,
    DATA_TEAM,
    GATEWAY,
    HEARTBEATS,
    POOL,
    RESOLVE,
    RESOLVER,
    WORKERS,
)
from pallas_contracts.data_agents import DataAgent, Heartbeat, PoolAnswer, PoolRequest
from pallas_contracts.errors import NotFound
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal, Result
from pallas_runtime.settings import ExecutorSettings
from pallas_turns.events import Emitter
from pallas_turns.executor import Troubles, execute_turns
from pallas_turns.metrics import make_metrics
from pallas_turns.queue import delete_consumer
from pallas_turns.runtime import Completed, HostedAgent, Outcome, Turn

OWNER = Principal(type="token", id="tok_feeds")
DEFINITION = AgentDefinition(
    team=DATA_TEAM,
    agent="feed",
    kind="data",
    title="feed",
    tools=(ToolDefinition(name="repeat", input_schema={"type": "object", "properties": {"text": {"type": "string"}}}),),
    updated_at=utc_now(),
)


class _Repeats:
    """Answers with its text."""

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        return Completed(Result(content=({"type": "text", "text": turn.arguments["text"]},)))

    async def read(self, question: AgentRead) -> JsonObject:
        raise NotFound("there is nothing to read")


@pytest.fixture
def alone(tmp_path: Path) -> Generator[Guarded]:
    """A broker for this test alone."""
    guarded = start(tmp_path)
    yield guarded
    guarded.server.close()


async def test_the_pool_registers_an_agent_executes_its_turns_and_forgets_it(alone: Guarded) -> None:
    process, access = a_process(POOL), alone.access(POOL)
    settings = ExecutorSettings.from_env({"PALLAS_NATS_URL": access.url, "PALLAS_NATS_SEED": alone.seed(POOL)})
    async with (
        a_gateway(alone.server.url, nats_seed=alone.seed(GATEWAY)) as front,
        connect(access, POOL, instance=process.instance) as bus,
    ):
        await declare(bus, DATA_AGENTS, HEARTBEATS)
        async with (
            kv.watch(bus, DATA_AGENTS) as registrations,
            kv.watch(bus, HEARTBEATS) as heartbeats,
            kv.watch(bus, WORKERS) as workers,
            execute_turns(bus, settings, process, make_metrics(process.probes.metrics), slots=8) as executor,
        ):
            await soon(registrations.synced.wait())
            await executor.watch(DATA_TEAM)
            presence = bus.spawn(executor.send_presence(Troubles()))
            registered = DataAgent(agent="feed", owner=OWNER, definition=DEFINITION, registered_at=utc_now())
            await kv.put(bus, DATA_AGENTS, registered, after=0, agent="feed")
            await kv.put(bus, HEARTBEATS, Heartbeat(agent="feed", status="active", at=utc_now()), agent="feed")
            await kv.put(bus, AGENTS, DEFINITION, after=0, team=DATA_TEAM, agent="feed")
            assert list(await kv.get_entries(bus, AGENTS, team=DATA_TEAM)) == ["data.feed"]
            await executor.add(HostedAgent(DEFINITION, _Repeats()))

            async def all_known() -> bool:
                return "feed" in registrations and "feed" in heartbeats and process.instance in workers

            await until(all_known)
            for text in ("hello", "x" * 400_000):
                async with front.client(DATA_TEAM, "feed") as client:
                    [block] = (await soon(client.call_tool("repeat", {"text": text}), 30)).content
                assert block.type == "text"
                assert block.text == text
            await executor.remove("data.feed")
            await delete_consumer(bus, DATA_TEAM, "feed")
            await kv.delete(bus, AGENTS, team=DATA_TEAM, agent="feed")
            await kv.delete(bus, DATA_AGENTS, agent="feed")
            await kv.delete(bus, HEARTBEATS, agent="feed")
            presence.cancel()
    assert alone.violations == []


async def test_the_pool_asks_who_calls_and_is_asked_by_gateways(alone: Guarded) -> None:
    async def register(question: PoolRequest) -> PoolAnswer:
        return PoolAnswer(result={"agent_id": question.params["agent_id"]})

    async def resolve(_: ResolveBearer) -> Resolved:
        return Resolved(principal=OWNER, cache="miss")

    async with (
        connect(alone.access(POOL), POOL) as pool,
        connect(alone.access(GATEWAY), GATEWAY) as gateway,
        connect(alone.access(RESOLVER), RESOLVER) as resolver,
    ):
        await ask.answer(pool, await ask.answering(pool, description="of this test"), ASK_POOL, register)
        await ask.answer(resolver, await ask.answering(resolver, description="of this test"), RESOLVE, resolve)
        request = PoolRequest(principal=OWNER, method="server.register", params={"agent_id": "feed"})
        assert (await ask.ask(gateway, ASK_POOL, request)).result == {"agent_id": "feed"}
        assert (await ask.ask(pool, RESOLVE, ResolveBearer(bearer="b"))).principal == OWNER
    assert alone.violations == []
