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

from health_monitor.app import build
from health_monitor.broker import measure_depths
from health_monitor.judging.monitor import ON_DEMAND
from health_monitor.settings import MonitorSettings
from pallas_bus.ask import ask
from pallas_bus.connection import Bus, connect
from pallas_bus.kv import Table, delete, put, watch
from pallas_bus.reads import read_last
from pallas_bus.streams import bucket_subject, declare
from pallas_contracts.agents import AgentDefinition, Dependency, Limits, WorkerPresence
from pallas_contracts.catalog import (
    AGENTS,
    CHECK_HEALTH,
    GATEWAY,
    HEALTH,
    TURN_QUEUE,
    WORKER,
    WORKERS,
)
from pallas_contracts.errors import NotFound, Unavailable
from pallas_contracts.health import AgentHealth, HealthAsked
from pallas_contracts.ids import new_turn_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import ClientContext, TurnRequested
from pallas_runtime.probes import Probes
from pallas_runtime.process import Process
from pallas_runtime.run import Served
from pallas_teams import load_team
from pallas_turns.queue import ensure_consumer, submit

NO_WORKER = "no worker is running; its turns wait for one"
SECRET = "Bearer s3cret-of-argos"
BEAT = 1.0
"""Seconds between two beats of a worker."""


@dataclass
class MonitorLab:
    """A broker with a worker and a gateway, a team folder, and the published health."""

    url: str
    folder: Path
    worker: Bus
    gateway: Bus
    health: Table[AgentHealth]
    process: Process
    stack: AsyncExitStack
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _beating: asyncio.Task[None] | None = None

    async def start(self, **settings: str) -> Served:
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
async def lab(nats_server: NatsServer, tmp_path: Path) -> AsyncGenerator[MonitorLab]:
    """A broker of the test's own, because a monitor judges every agent that it finds."""
    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(connect(nats_server.url, WORKER))
        gateway = await stack.enter_async_context(connect(nats_server.url, GATEWAY))
        await declare(gateway, AGENTS, WORKERS, TURN_QUEUE)
        health = await stack.enter_async_context(watch(gateway, HEALTH))
        process = Process("health-monitor", "health-monitor-test", 0, Probes())
        lab = MonitorLab(nats_server.url, tmp_path / "team", worker, gateway, health, process, stack)

        def on_change(_key: str, _health: AgentHealth | None) -> None:
            lab.changed.set()

        health.on_change(on_change)
        yield lab


@pytest.fixture
async def downstream() -> AsyncGenerator[Downstream]:
    """A running MCP server."""
    async with mcp_app() as app:
        server = Downstream()
        await server.start(app)
        yield server
        await server.stop()


async def test_health_follows_a_server_that_stops_and_starts(lab: MonitorLab, downstream: Downstream) -> None:
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.present("harper")
    await lab.start(probe_interval="0.2")
    ok = await lab.until("harper", lambda health: health.status == "ok")
    assert (ok.message, ok.workers, ok.interval) == (None, 1, 0.2)
    await downstream.stop()
    degraded = await lab.until("harper", lambda health: health.status == "degraded")
    assert degraded.message == "argos unreachable (cannot connect)"
    async with mcp_app() as app:
        await downstream.start(app)
        await lab.until("harper", lambda health: health.status == "ok")


async def test_a_server_shared_by_three_agents_is_probed_once(lab: MonitorLab, downstream: Downstream) -> None:
    lab.write(downstream, "harper", "research", "engineering", harper={"depends_on": ["research"]})
    await lab.publish()
    await lab.start()
    for agent in ("harper", "research", "engineering"):
        assert (await lab.until(agent, lambda _: True)).message == NO_WORKER
    assert downstream.count("initialize") == 1


async def test_a_degraded_sub_agent_degrades_its_callers(lab: MonitorLab, downstream: Downstream) -> None:
    lab.write(downstream, "harper", "research", harper={"depends_on": ["research"], "servers": []})
    await downstream.stop()
    await lab.publish()
    await lab.present("harper", "research")
    await lab.start()
    health = await lab.until("harper", lambda _: True)
    assert (health.status, health.message) == ("degraded", "argos unreachable (cannot connect)")


async def test_a_new_worker_changes_health_at_once_and_not_in_the_next_round(
    lab: MonitorLab, downstream: Downstream
) -> None:
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.start(probe_interval="60")
    assert (await lab.until("harper", lambda _: True)).message == NO_WORKER
    await lab.present("harper")
    await lab.until("harper", lambda health: health.status == "ok")
    await lab.present("harper", failed={"t.harper": "no such module"})
    failed = await lab.until("harper", lambda health: health.status == "error")
    assert failed.message == "the agent failed to start: no such module"
    assert downstream.count("initialize") == 1


async def test_a_change_of_an_agents_troubles_changes_its_health_at_once(
    lab: MonitorLab, downstream: Downstream
) -> None:
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.present("harper")
    await lab.start(probe_interval="60")
    await lab.until("harper", lambda health: health.status == "ok")
    for status, reason in (("degraded", "no heartbeat for 45 s"), ("error", "no heartbeat for 90 s")):
        await lab.present("harper", troubles={"t.harper": {"status": status, "reason": reason}})
        health = await lab.until("harper", lambda health, status=status: health.status == status)
        assert health.message == reason
    await lab.present(troubles={"t.harper": {"status": "error", "reason": "not connected"}})
    await lab.until("harper", lambda health: health.message == "not connected")


async def test_a_new_agent_gets_a_health_at_once_and_a_retired_one_loses_it(
    lab: MonitorLab, downstream: Downstream
) -> None:
    lab.write(downstream, "harper", "research")
    await lab.publish("harper")
    await lab.start(probe_interval="0.5")
    await lab.until("harper", lambda _: True)
    await lab.publish("research")
    await lab.until("research", lambda _: True)
    await delete(lab.worker, AGENTS, team="t", agent="research")
    async with asyncio.timeout(PATIENCE):
        while "t.research" in lab.health:
            lab.changed.clear()
            await lab.changed.wait()
    assert 'agent="research"' not in generate_latest(lab.process.probes.metrics).decode()


@requirement("P-3.17")
async def test_a_server_beyond_the_limit_is_slow(lab: MonitorLab, downstream: Downstream) -> None:
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.present("harper")
    await lab.start(probe_slow="0.0001")
    health = await lab.until("harper", lambda _: True)
    assert (health.status, health.message) == ("degraded", "argos slow")


async def test_turns_that_wait_too_long_without_a_worker_are_an_error_until_one_starts(
    lab: MonitorLab, downstream: Downstream
) -> None:
    lab.write(downstream, "harper")
    await lab.publish(limits=Limits(queue_timeout=0.3))
    client = ClientContext(protocol_version="2026-07-28")
    await submit(
        lab.gateway,
        TurnRequested(
            turn_id=new_turn_id(), team="t", agent="harper", tool="harper", client=client, requested_at=utc_now()
        ),
    )
    await lab.start(probe_interval="0.2")
    health = await lab.until("harper", lambda health: health.status == "error")
    assert "turns have waited" in (health.message or "")
    await lab.present("harper")
    await lab.until("harper", lambda health: health.status == "ok")


async def test_the_health_of_stdio_servers_comes_from_the_worker(lab: MonitorLab, downstream: Downstream) -> None:
    lab.write(downstream, "harper")
    definition = AgentDefinition(
        team="t",
        agent="harper",
        title="Harper",
        dependencies=(Dependency(name="shell", key="k-shell", transport="stdio"),),
        updated_at=utc_now(),
    )
    await put(lab.worker, AGENTS, definition, team="t", agent="harper")
    await lab.present("harper", stdio={"k-shell": "exited"})
    await lab.start()
    assert (await lab.until("harper", lambda _: True)).message == "shell unreachable (exited)"
    await lab.present("harper", stdio={"k-shell": None})
    await lab.until("harper", lambda health: health.status == "ok")


async def test_a_check_on_demand_probes_at_once_and_concurrent_ones_share_it(
    lab: MonitorLab, downstream: Downstream
) -> None:
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.present("harper")
    await lab.start(probe_interval="60")
    await lab.until("harper", lambda health: health.status == "ok")
    answers = await asyncio.gather(*(lab.ask("harper") for _ in range(5)))
    assert {answer.status for answer in answers} == {"ok"}
    assert downstream.count("initialize") == 2
    await downstream.stop()
    assert (await lab.ask("harper")).message == "argos unreachable (cannot connect)"
    await lab.until("harper", lambda health: health.status == "degraded")


async def test_a_check_of_an_unknown_agent_is_an_error(lab: MonitorLab, downstream: Downstream) -> None:
    lab.write(downstream, "harper")
    await lab.start()
    with pytest.raises(NotFound, match="harper"):
        await lab.ask("harper")


@requirement("P-3.10", "P-3.13")
async def test_a_hanging_server_is_unreachable_after_three_seconds_and_delays_no_answer(
    lab: MonitorLab, downstream: Downstream
) -> None:
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.present("harper")
    await lab.start(probe_interval="60")
    before = await lab.until("harper", lambda health: health.status == "ok")
    await downstream.stop()
    released = asyncio.Event()
    await downstream.start(hung(released))
    started = asyncio.get_running_loop().time()
    assert CHECK_HEALTH.timeout > ON_DEMAND
    async with within(CHECK_HEALTH.timeout):
        assert (await lab.ask("harper")) == before, "the answer came before the probe's"
    async with asyncio.timeout(PATIENCE):
        while (answer := await lab.ask("harper")).status == "ok":
            pass
    assert answer.message == "argos unreachable (no answer in 3 s)"
    assert asyncio.get_running_loop().time() - started > 2.9
    released.set()


async def test_headers_are_sent_but_neither_stored_nor_logged(
    lab: MonitorLab, downstream: Downstream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.start(probe_interval="0.2")
    await lab.until("harper", lambda _: True)
    await soon(downstream.deleted.wait())
    assert {request.headers["authorization"] for request in downstream.requests} == {SECRET}
    for bucket in ("agents", "health", "probes"):
        records = await read_last(lab.gateway, f"KV_{bucket}", f"$KV.{bucket}.>")
        assert records
        stored = b"".join(record.data for record in records)
        assert b"s3cret" not in stored
        assert str(downstream.port).encode() not in stored
    assert "s3cret" not in caplog.text
    assert "s3cret" not in generate_latest(lab.process.probes.metrics).decode()


async def test_an_unreadable_folder_is_reported_and_read_again_when_it_changes(
    lab: MonitorLab, downstream: Downstream, caplog: pytest.LogCaptureFixture
) -> None:
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.present("harper")
    (lab.folder / "agents.yaml").write_text("name: t\nagents: {harper: {colour: red}}\n", "utf-8")
    await lab.start(probe_interval="0.2")
    health = await lab.until("harper", lambda _: True)
    assert health.status == "ok"
    assert "argos not checked" in (health.message or "")
    assert "a team folder cannot be used" in caplog.text
    faults = 'pallas_team_folder_faults{folder="team"}'
    assert f"{faults} 0.0" not in generate_latest(lab.process.probes.metrics).decode()
    lab.write(downstream, "harper")
    await lab.until("harper", lambda health: health.message is None)
    assert f"{faults} 0.0" in generate_latest(lab.process.probes.metrics).decode()


async def test_the_monitor_is_ready_after_the_first_round_and_exposes_its_results(
    lab: MonitorLab, downstream: Downstream
) -> None:
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.present("harper")
    await lab.start()
    lab.process.probes.started = True
    assert lab.process.probes.missing() == {}
    shown = generate_latest(lab.process.probes.metrics).decode()
    assert 'pallas_agent_health{agent="harper",team="t"} 1.0' in shown
    assert 'pallas_probe_duration_seconds_count{kind="mcp"} 1.0' in shown
    assert any(line.startswith("pallas_probe_up{") and line.endswith(" 1.0") for line in shown.splitlines())


async def test_health_is_published_again_after_the_broker_is_back(
    lab: MonitorLab, downstream: Downstream, nats_server: NatsServer
) -> None:
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.start(probe_interval="0.2")
    before = await lab.until("harper", lambda _: True)
    await asyncio.to_thread(nats_server.restart)
    await lab.until("harper", lambda health: health.at > before.at and lab.gateway.connected, within=15)


async def test_waiting_turns_and_stream_sizes_are_exposed_by_agent_and_stream(
    lab: MonitorLab, downstream: Downstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_depths, "INTERVAL", 0.05)
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.present("harper")
    for agent in ("harper", "retired"):
        await ensure_consumer(lab.gateway, "t", agent, max_concurrency=None)
        await submit(lab.gateway, turn_requested("t", agent))
    await lab.start()
    metrics = lab.process.probes.metrics

    def measured(metric: str, **labels: str) -> float | None:
        return metrics.get_sample_value(metric, labels)

    await eventually(lambda: measured("pallas_queue_turns_waiting", team="t", agent="harper") == 1)
    assert measured("pallas_queue_turns_running", team="t", agent="harper") == 0
    assert measured("pallas_queue_turns_waiting", team="t", agent="retired") is None
    assert measured("pallas_stream_messages", stream="TURN_QUEUE") == 2
    assert measured("pallas_stream_messages", stream="CHANGES") is None
    assert measured("pallas_agent_workers", team="t", agent="harper") == 1


async def test_slots_are_wanted_for_turns_that_no_consumer_has_and_for_agents_that_nobody_has_published(
    lab: MonitorLab, downstream: Downstream
) -> None:
    lab.write(downstream, "harper")
    await lab.start(measure_interval="0.05")

    def wanted() -> float | None:
        return lab.process.probes.metrics.get_sample_value("pallas_team_slots_wanted", {"team": "t"})

    await eventually(lambda: wanted() == 1)
    await lab.publish()
    await eventually(lambda: wanted() == 0)
    for _ in range(3):
        await submit(lab.gateway, turn_requested("t", "harper"))
    await eventually(lambda: wanted() == 3)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"tools": [{"name": "say", "input_schema": {"pattern": "(?=a)b"}}]}, "tool 'say': input_schema/pattern: "),
        ({"tools": [{"name": "say", "icons": [{"src": 5}]}]}, "tools.0.icons.0: src: "),
        ({"port": 70_000, "model": {"provider": "*", "model": "*", "key": "*"}}, "port: "),
    ],
)
async def test_an_unusable_definition_is_an_error_and_other_agents_get_their_health(
    lab: MonitorLab, downstream: Downstream, fields: dict[str, Any], reason: str
) -> None:
    definition = {"team": "t", "agent": "odd", "title": "Odd", "updated_at": "2026-01-01T00:00:00Z", **fields}
    lab.write(downstream, "harper")
    await lab.publish()
    await lab.present("harper", "odd")
    await lab.worker.put(bucket_subject(AGENTS, "t.odd"), json.dumps(definition).encode())
    await lab.start()
    odd = await lab.until("odd", lambda health: health.status == "error")
    assert (odd.message or "").startswith(f"the definition cannot be used: {reason}")
    await lab.until("harper", lambda health: health.status == "ok")
    assert (await lab.ask("odd")).message == odd.message
    assert not lab.process.failed.is_set()


async def test_an_output_schema_that_cannot_be_used_degrades_its_agent(lab: MonitorLab, downstream: Downstream) -> None:
    tool = {"name": "count", "output_schema": {"type": "object", "$ref": "#/$defs/nowhere"}}
    definition = {"team": "t", "agent": "odd", "title": "Odd", "updated_at": "2026-01-01T00:00:00Z", "tools": [tool]}
    lab.write(downstream, "harper")
    await lab.present("odd")
    await lab.worker.put(bucket_subject(AGENTS, "t.odd"), json.dumps(definition).encode())
    await lab.start()
    odd = await lab.until("odd", lambda health: health.status == "degraded")
    assert (odd.message or "").startswith("its answers are not checked: tool 'count': output_schema")
    await lab.worker.put(bucket_subject(AGENTS, "t.odd"), json.dumps({**definition, "tools": []}).encode())
    await lab.until("odd", lambda health: health.status == "ok")
