"""The health monitor as gateway and registry see it: through the broker, with real servers being probed."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from tests.builders import turn_requested
from tests.embedded import NatsServer
from tests.integration.health_monitor.servers import Downstream, hung, mcp_app
from tests.requirements import requirement
from tests.waiting import PATIENCE, eventually, soon, within

from health_monitor import measure_depths
from health_monitor.app import HealthMonitor, build
from health_monitor.monitor import ON_DEMAND
from health_monitor.settings import MonitorSettings
from pallas_bus.transport.ask import ask
from pallas_bus.transport.connection import Bus, connect
from pallas_bus.transport.kv import (
    Table,
    delete,
    put,
    watch,
)
from pallas_bus.transport.reads import read_last
from pallas_bus.transport.streams import bucket_subject, declare
from pallas_bus.turnlog.queue import ensure_consumer, submit
from pallas_contracts.agents import AgentDefinition, Dependency, Limits, WorkerPresence
from pallas_contracts.catalog import AGENTS, CHECK_HEALTH, GATEWAY, HEALTH, TURN_QUEUE, WORKER, WORKERS
from pallas_contracts.errors import NotFound, Unavailable
from pallas_contracts.health import AgentHealth, HealthAsked
from pallas_contracts.ids import new_turn_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import ClientContext, TurnRequested
from pallas_runtime.probes import Probes
from pallas_runtime.run import Process
from pallas_teams import load_team

NO_WORKER = "no worker is running; starts on the next turn"
SECRET = "Bearer s3cret-of-argos"
BEAT = 1.0
"""Seconds between two beats of a worker."""


@dataclass
class World:
    """A broker with a worker and a gateway on it, a team folder and what the monitor says."""

    url: str
    folder: Path
    worker: Bus
    gateway: Bus
    health: Table[AgentHealth]
    process: Process
    stack: AsyncExitStack
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _beating: asyncio.Task[None] | None = None

    async def start(self, **settings: str) -> HealthMonitor:
        """Start a monitor; `settings` are variables without their prefix."""
        # A server does not count as slow because the machine stood still.
        given = {"PALLAS_NATS_URL": self.url, "PALLAS_TEAMS": str(self.folder), "PALLAS_PROBE_SLOW": str(PATIENCE)}
        given |= {f"PALLAS_{name.upper()}": value for name, value in settings.items()}
        return await self.stack.enter_async_context(build(MonitorSettings.from_env(given), self.process))

    async def publish(self, *agents: str, limits: Limits | None = None) -> None:
        """Publish the folder's agents as a worker does; all of them by default."""
        team = load_team(self.folder, os.environ)
        for agent in team.agents.values():
            if agents and agent.name not in agents:
                continue
            definition = AgentDefinition(
                team=team.name,
                agent=agent.name,
                title=agent.title,
                agents=agent.depends_on,
                dependencies=team.dependencies(agent),
                model=team.model_dependency(agent),
                limits=limits or agent.limits,
                updated_at=utc_now(),
            )
            await put(self.worker, AGENTS, definition, team=team.name, agent=agent.name)

    async def present(self, *agents: str, **fields: Any) -> None:
        """Beat as a worker that hosts `agents`, from now on: a presence lasts for six seconds."""
        given = {"worker": "w1", "slots": 4, "agents": tuple(f"t.{agent}" for agent in agents), "at": utc_now()}
        presence = WorkerPresence.model_validate(given | fields)
        if self._beating is not None:
            self._beating.cancel()
        await put(self.worker, WORKERS, presence, worker="w1")
        self._beating = self.worker.spawn(self._beat(presence))

    async def _beat(self, presence: WorkerPresence) -> None:
        while True:
            await asyncio.sleep(BEAT)
            with suppress(Unavailable):  # the broker is away
                await put(self.worker, WORKERS, presence, worker="w1")

    async def until(self, agent: str, accepts: Callable[[AgentHealth], bool], within: float = PATIENCE) -> AgentHealth:
        """Wait until the published health of an agent is accepted."""
        async with asyncio.timeout(within):
            while (health := self.health.get(f"t.{agent}")) is None or not accepts(health):
                self.changed.clear()
                await self.changed.wait()
        return health

    async def ask(self, agent: str) -> AgentHealth:
        """Ask for a check on demand."""
        asked = HealthAsked(team="t", agent=agent)
        return await ask(self.gateway, CHECK_HEALTH, asked, timeout=PATIENCE, team="t", agent=agent)

    def write(self, downstream: Downstream, *agents: str, **more: dict[str, Any]) -> None:
        """Write the team folder: agents with one server, argos. JSON is YAML."""
        described = {name: {"instruction": "Help.", "servers": ["argos"]} | more.get(name, {}) for name in agents}
        server = {"url": downstream.url}
        config = {"default_model": "offline", "mcp": {"servers": {"argos": server}}}
        secrets = {"mcp": {"servers": {"argos": {"headers": {"Authorization": SECRET}}}}}
        self.folder.mkdir(exist_ok=True)
        (self.folder / "agents.yaml").write_text(json.dumps({"name": "t", "agents": described}), "utf-8")
        (self.folder / "fastagent.config.yaml").write_text(json.dumps(config), "utf-8")
        (self.folder / "fastagent.secrets.yaml").write_text(json.dumps(secrets), "utf-8")


@pytest.fixture
async def world(nats_server: NatsServer, tmp_path: Path) -> AsyncGenerator[World]:
    """A broker of the test's own, because a monitor judges every agent that it finds."""
    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(connect(nats_server.url, WORKER))
        gateway = await stack.enter_async_context(connect(nats_server.url, GATEWAY))
        await declare(gateway, AGENTS, WORKERS, TURN_QUEUE)
        health = await stack.enter_async_context(watch(gateway, HEALTH))
        process = Process("health-monitor", "health-monitor-test", 0, Probes())
        world = World(nats_server.url, tmp_path / "team", worker, gateway, health, process, stack)

        def heard(_key: str, _health: AgentHealth | None) -> None:
            world.changed.set()

        health.on_change(heard)
        yield world


@pytest.fixture
async def downstream() -> AsyncGenerator[Downstream]:
    """A running MCP server."""
    async with mcp_app() as app:
        server = Downstream()
        await server.start(app)
        yield server
        await server.stop()


async def test_health_follows_a_server_that_stops_and_starts(world: World, downstream: Downstream) -> None:
    world.write(downstream, "harper")
    await world.publish()
    await world.present("harper")
    await world.start(probe_interval="0.2")
    ok = await world.until("harper", lambda health: health.status == "ok")
    assert (ok.message, ok.workers, ok.interval) == (None, 1, 0.2)
    await downstream.stop()
    degraded = await world.until("harper", lambda health: health.status == "degraded")
    assert degraded.message == "argos unreachable (cannot connect)"
    async with mcp_app() as app:
        await downstream.start(app)
        await world.until("harper", lambda health: health.status == "ok")


async def test_a_server_that_three_agents_share_is_probed_once(world: World, downstream: Downstream) -> None:
    world.write(downstream, "harper", "research", "engineering", harper={"depends_on": ["research"]})
    await world.publish()
    await world.start()
    for agent in ("harper", "research", "engineering"):
        assert (await world.until(agent, lambda _: True)).message == NO_WORKER
    assert downstream.count("initialize") == 1


async def test_a_degraded_sub_agent_degrades_who_calls_it(world: World, downstream: Downstream) -> None:
    world.write(downstream, "harper", "research", harper={"depends_on": ["research"], "servers": []})
    await downstream.stop()
    await world.publish()
    await world.present("harper", "research")
    await world.start()
    health = await world.until("harper", lambda _: True)
    assert (health.status, health.message) == ("degraded", "argos unreachable (cannot connect)")


async def test_a_worker_that_comes_shows_at_once_and_not_with_the_next_round(
    world: World, downstream: Downstream
) -> None:
    world.write(downstream, "harper")
    await world.publish()
    await world.start(probe_interval="60")
    assert (await world.until("harper", lambda _: True)).message == NO_WORKER
    await world.present("harper")
    await world.until("harper", lambda health: health.status == "ok")
    await world.present("harper", failed={"t.harper": "no such module"})
    failed = await world.until("harper", lambda health: health.status == "error")
    assert failed.message == "the agent failed to start: no such module"
    assert downstream.count("initialize") == 1


async def test_an_agent_that_comes_is_judged_at_once_and_one_that_goes_is_forgotten(
    world: World, downstream: Downstream
) -> None:
    world.write(downstream, "harper", "research")
    await world.publish("harper")
    await world.start(probe_interval="0.5")
    await world.until("harper", lambda _: True)
    await world.publish("research")
    await world.until("research", lambda _: True)
    await delete(world.worker, AGENTS, team="t", agent="research")
    async with asyncio.timeout(PATIENCE):
        while "t.research" in world.health:
            world.changed.clear()
            await world.changed.wait()
    assert 'agent="research"' not in generate_latest(world.process.probes.metrics).decode()


@requirement("P-3.17")
async def test_a_server_is_slow_when_it_takes_longer_than_it_may(world: World, downstream: Downstream) -> None:
    world.write(downstream, "harper")
    await world.publish()
    await world.present("harper")
    await world.start(probe_slow="0.0001")
    health = await world.until("harper", lambda _: True)
    assert (health.status, health.message) == ("degraded", "argos slow")


async def test_turns_that_wait_too_long_without_a_worker_are_an_error_until_one_comes(
    world: World, downstream: Downstream
) -> None:
    world.write(downstream, "harper")
    await world.publish(limits=Limits(queue_timeout=0.3))
    client = ClientContext(protocol_version="2026-07-28")
    await submit(
        world.gateway,
        TurnRequested(
            turn_id=new_turn_id(), team="t", agent="harper", tool="harper", client=client, requested_at=utc_now()
        ),
    )
    await world.start(probe_interval="0.2")
    health = await world.until("harper", lambda health: health.status == "error")
    assert "turns have waited" in (health.message or "")
    await world.present("harper")
    await world.until("harper", lambda health: health.status == "ok")


async def test_stdio_servers_count_by_what_the_worker_says(world: World, downstream: Downstream) -> None:
    world.write(downstream, "harper")
    definition = AgentDefinition(
        team="t",
        agent="harper",
        title="Harper",
        dependencies=(Dependency(name="shell", key="k-shell", transport="stdio"),),
        updated_at=utc_now(),
    )
    await put(world.worker, AGENTS, definition, team="t", agent="harper")
    await world.present("harper", stdio={"k-shell": "exited"})
    await world.start()
    assert (await world.until("harper", lambda _: True)).message == "shell unreachable (exited)"
    await world.present("harper", stdio={"k-shell": None})
    await world.until("harper", lambda health: health.status == "ok")


async def test_a_check_on_demand_probes_now_and_those_who_ask_together_share_it(
    world: World, downstream: Downstream
) -> None:
    world.write(downstream, "harper")
    await world.publish()
    await world.present("harper")
    await world.start(probe_interval="60")
    await world.until("harper", lambda health: health.status == "ok")
    answers = await asyncio.gather(*(world.ask("harper") for _ in range(5)))
    assert {answer.status for answer in answers} == {"ok"}
    assert downstream.count("initialize") == 2
    await downstream.stop()
    assert (await world.ask("harper")).message == "argos unreachable (cannot connect)"
    await world.until("harper", lambda health: health.status == "degraded")


async def test_a_check_of_an_agent_that_does_not_exist_says_so(world: World, downstream: Downstream) -> None:
    world.write(downstream, "harper")
    await world.start()
    with pytest.raises(NotFound, match="harper"):
        await world.ask("harper")


@requirement("P-3.10", "P-3.13")
async def test_a_server_that_hangs_is_unreachable_after_three_seconds_and_holds_up_no_answer(
    world: World, downstream: Downstream
) -> None:
    world.write(downstream, "harper")
    await world.publish()
    await world.present("harper")
    await world.start(probe_interval="60")
    before = await world.until("harper", lambda health: health.status == "ok")
    await downstream.stop()
    released = asyncio.Event()
    await downstream.start(hung(released))
    started = asyncio.get_running_loop().time()
    assert CHECK_HEALTH.timeout > ON_DEMAND
    async with within(CHECK_HEALTH.timeout):
        assert (await world.ask("harper")) == before, "the answer came before the probe's"
    async with asyncio.timeout(PATIENCE):
        while (answer := await world.ask("harper")).status == "ok":
            pass
    assert answer.message == "argos unreachable (no answer in 3 s)"
    assert asyncio.get_running_loop().time() - started > 2.9
    released.set()


async def test_headers_are_sent_and_neither_stored_nor_logged(
    world: World, downstream: Downstream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    world.write(downstream, "harper")
    await world.publish()
    await world.start(probe_interval="0.2")
    await world.until("harper", lambda _: True)
    await soon(downstream.deleted.wait())
    assert {heard.headers["authorization"] for heard in downstream.heard} == {SECRET}
    for bucket in ("agents", "health", "probes"):
        records = await read_last(world.gateway, f"KV_{bucket}", f"$KV.{bucket}.>")
        assert records
        stored = b"".join(record.data for record in records)
        assert b"s3cret" not in stored
        assert str(downstream.port).encode() not in stored
    assert "s3cret" not in caplog.text
    assert "s3cret" not in generate_latest(world.process.probes.metrics).decode()


async def test_a_folder_that_cannot_be_read_is_reported_and_read_again_when_it_changes(
    world: World, downstream: Downstream, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(downstream, "harper")
    await world.publish()
    await world.present("harper")
    (world.folder / "agents.yaml").write_text("name: t\nagents: {harper: {colour: red}}\n", "utf-8")
    await world.start(probe_interval="0.2")
    health = await world.until("harper", lambda _: True)
    assert health.status == "ok"
    assert "argos not checked" in (health.message or "")
    assert "a team folder cannot be used" in caplog.text
    faults = 'pallas_team_folder_faults{folder="team"}'
    assert f"{faults} 0.0" not in generate_latest(world.process.probes.metrics).decode()
    world.write(downstream, "harper")
    await world.until("harper", lambda health: health.message is None)
    assert f"{faults} 0.0" in generate_latest(world.process.probes.metrics).decode()


async def test_it_is_ready_after_the_first_round_and_measures_what_it_found(
    world: World, downstream: Downstream
) -> None:
    world.write(downstream, "harper")
    await world.publish()
    await world.present("harper")
    await world.start()
    world.process.probes.started = True
    assert world.process.probes.missing() == {}
    shown = generate_latest(world.process.probes.metrics).decode()
    assert 'pallas_agent_health{agent="harper",team="t"} 1.0' in shown
    assert 'pallas_probe_duration_seconds_count{kind="mcp"} 1.0' in shown
    assert any(line.startswith("pallas_probe_up{") and line.endswith(" 1.0") for line in shown.splitlines())


async def test_health_goes_on_after_the_broker_came_back(
    world: World, downstream: Downstream, nats_server: NatsServer
) -> None:
    world.write(downstream, "harper")
    await world.publish()
    await world.start(probe_interval="0.2")
    before = await world.until("harper", lambda _: True)
    await asyncio.to_thread(nats_server.restart)
    await world.until("harper", lambda health: health.at > before.at and world.gateway.connected, within=15)


async def test_what_lies_in_the_broker_is_measured_by_agent_and_by_stream(
    world: World, downstream: Downstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_depths, "INTERVAL", 0.05)
    world.write(downstream, "harper")
    await world.publish()
    await world.present("harper")
    for agent in ("harper", "retired"):
        await ensure_consumer(world.gateway, "t", agent, max_concurrency=None)
        await submit(world.gateway, turn_requested("t", agent))
    await world.start()
    metrics = world.process.probes.metrics

    def measured(metric: str, **labels: str) -> float | None:
        return metrics.get_sample_value(metric, labels)

    await eventually(lambda: measured("pallas_queue_turns_waiting", team="t", agent="harper") == 1)
    assert measured("pallas_queue_turns_running", team="t", agent="harper") == 0
    assert measured("pallas_queue_turns_waiting", team="t", agent="retired") is None
    assert measured("pallas_stream_messages", stream="TURN_QUEUE") == 2
    assert measured("pallas_stream_messages", stream="CHANGES") is None
    assert measured("pallas_agent_workers", team="t", agent="harper") == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"tools": [{"name": "say", "input_schema": {"pattern": "(?=a)b"}}]}, "tool 'say': input_schema/pattern: "),
        ({"port": 70_000, "model": {"provider": "*", "model": "*", "key": "*"}}, "port: "),
    ],
)
async def test_a_definition_that_cannot_be_used_is_an_error_and_the_others_are_judged(
    world: World, downstream: Downstream, fields: dict[str, Any], reason: str
) -> None:
    definition = {"team": "t", "agent": "odd", "title": "Odd", "updated_at": "2026-01-01T00:00:00Z", **fields}
    world.write(downstream, "harper")
    await world.publish()
    await world.present("harper", "odd")
    await world.worker.put(bucket_subject(AGENTS, "t.odd"), json.dumps(definition).encode())
    await world.start()
    odd = await world.until("odd", lambda health: health.status == "error")
    assert (odd.message or "").startswith(f"the definition cannot be used: {reason}")
    await world.until("harper", lambda health: health.status == "ok")
    assert (await world.ask("odd")).message == odd.message
    assert not world.process.failed.is_set()
