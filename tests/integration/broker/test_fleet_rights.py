"""What the fleet does on a broker with rights for each service is not denied, and what it must not do is."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from mcp import Client
from tests.integration.broker.guarded import ALPHA, Guarded, start, trying
from tests.integration.real_parts import a_gateway, a_process, until

from fleet.app import FleetService, build
from fleet.handlers.start_task import LONGEST_DESCRIPTION
from fleet.running import watching
from fleet.running.typing import task_ref, task_request
from fleet.settings import FleetSettings
from pallas_bus.streams import bucket_subject
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import AGENTS, FLEET, FLEET_AGENT, FLEET_TEAM, GATEWAY
from pallas_contracts.ids import new_turn_id
from pallas_demo.coder import CoderStandIn, StandInSettings, TerminalSettings
from pallas_turns.content import offload_request, whole_request
from pallas_turns.liveness import last_claims


@pytest.fixture
def alone(tmp_path: Path) -> Generator[Guarded]:
    """A broker for this test alone."""
    guarded = start(tmp_path)
    yield guarded
    guarded.server.close()


@asynccontextmanager
async def a_replica(guarded: Guarded, coder: CoderStandIn) -> AsyncGenerator[FleetService]:
    """The fleet, as its process builds it."""
    given = {"nats_url": guarded.server.url, "nats_seed": guarded.seed(FLEET), "fleet_allow": "peer"}
    given |= {"coder_url": coder.url, "coder_token": coder.token}
    environ = {f"PALLAS_{name.upper()}": value for name, value in given.items()}
    async with build(FleetSettings.from_env(environ), a_process(FLEET)) as service:
        yield service


async def called(client: Client, tool: str, **arguments: str) -> JsonObject:
    """The answer of a tool."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def test_the_fleet_does_its_work_with_its_rights(alone: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "STABLE_SECONDS", 0.4)
    async with (
        CoderStandIn(StandInSettings(build_seconds=0.05, terminal=TerminalSettings(stable_after=0.1))) as coder,
        httpx.AsyncClient(trust_env=False) as http,
        a_gateway(alone.server.url, nats_seed=alone.seed(GATEWAY)) as front,
        a_replica(alone, coder) as one,
    ):

        async def hosted() -> bool:
            return (await http.put(front.url(FLEET_TEAM, FLEET_AGENT))).status_code == 405

        await until(hosted)
        async with front.client(FLEET_TEAM, FLEET_AGENT) as client:
            await called(client, "create_agent", name="papi", project="Setup", spec="say hello")

            async def idle() -> bool:
                return (await called(client, "list_agents"))["agents"][0]["status"] == "idle"

            await until(idle, 20)
            given = {"agent_name": "papi", "task_description": "work 60 s"}
            started = await called(client, "start_agent_task", **given)
            [entry] = one.fleet.agents.all()
            large = task_request(entry, "€" * LONGEST_DESCRIPTION)
            light = await offload_request(one.executor.bus, large)
            assert light.stowed is not None
            assert (await whole_request(one.executor.bus, light)).arguments == large.arguments
            async with a_replica(alone, coder) as two:
                turn_id = started["task"]["id"].replace("-", "")
                assert turn_id in await last_claims(two.executor.bus, [task_ref(turn_id)])
                await one.drain()
                stopped = await called(client, "stop_agent_task", agent_name="papi")
                assert stopped["task"]["id"] == started["task"]["id"]
                history = await called(client, "show_agent_task_history", agent_name="papi")
                assert [task["status"] for task in history["tasks"]] == ["stopped", "completed"]
                await two.reconciling.round()
                await called(client, "delete_agent", agent_name="papi")
    assert alone.violations == []


async def test_the_fleet_makes_turns_of_its_own_team_only(alone: Guarded) -> None:
    turn = new_turn_id()
    async with trying(alone.access(FLEET), FLEET) as trier:
        foreign = [
            f"pallas.v1.turn.requested.{ALPHA}.bench.x.{turn}",
            f"pallas.v1.turn.claim.{ALPHA}.bench.{turn}",
            f"pallas.v1.turn.outcome.{ALPHA}.bench.{turn}",
            bucket_subject(AGENTS, f"{ALPHA}.bench"),
        ]
        assert await trier.publish(*foreign) == set(foreign)
