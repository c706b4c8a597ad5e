"""Two of three brokers are lost: every service says so, callers are refused at once, and all recovers by itself."""

import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult
from pydantic import SecretStr
from tests.cluster import three_brokers
from tests.embedded import NatsServer
from tests.integration.pallas_command import Pallas
from tests.integration.real_parts import Front, a_gateway, a_lab, a_process, a_worker, listening_service, measured
from tests.waiting import eventually

from health_monitor.app import build as build_monitor
from health_monitor.settings import MonitorSettings
from pallas_bus.access import Access
from pallas_bus.connection import connect
from pallas_cli.broker_config.users import SYSTEM, read_workers
from pallas_cli.broker_config.write import USERS, BrokerFolder
from pallas_contracts.catalog import CLI, GATEWAY, MONITOR, TURN_LOG, TURN_QUEUE, WORKER
from pallas_runtime.process import Process

TEAM = "quorum"
WITHIN = 60.0
ANSWERED_WITHIN = 1.0
"""Seconds. Without leaders nothing is waited for."""

LOST = "no leader: TURN_LOG, TURN_QUEUE"
CONNECTIONS = 10
"""More than all connections to the broker in this process, each of which logs for itself."""


@dataclass
class Platform:
    """Gateway, worker and monitor on three brokers with the users of `pallas broker config`."""

    brokers: Sequence[NatsServer]
    front: Front
    worker: Process
    monitor: Process
    users: BrokerFolder

    @property
    def urls(self) -> str:
        """The addresses for clients."""
        return ",".join(broker.url for broker in self.brokers)

    @property
    def processes(self) -> tuple[Process, ...]:
        """Those that write to streams."""
        return self.front.process, self.worker, self.monitor

    async def call(self) -> tuple[CallToolResult, float]:
        """Call a tool; its result, and how many seconds that took."""
        async with self.front.client(TEAM, "bench") as client:
            began = time.monotonic()
            result = await client.call_tool("say", {})
            return result, time.monotonic() - began

    def leaderless(self, stream: str) -> float | None:
        """The gauge of a stream."""
        return self.monitor.probes.metrics.get_sample_value("pallas_stream_leaderless", {"stream": stream})


@pytest.fixture(scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Platform]:
    """All of it, ready, each process with the rights of its user."""
    folder = a_lab(tmp_path_factory.mktemp("teams") / TEAM, TEAM)
    users = BrokerFolder(tmp_path_factory.mktemp("users"))
    users.write_users(read_workers([[folder]], {}))
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        brokers = await enter(three_brokers((users.folder / USERS).read_text("utf-8")))
        urls, worker = ",".join(broker.url for broker in brokers), a_process(WORKER)
        front = await enter(a_gateway(urls, stream_replicas="3", nats_seed=users.seeds.kept(GATEWAY)))
        await enter(a_worker(urls, folder, process=worker, nats_seed=users.seeds.kept(f"{WORKER}.{TEAM}")))
        given = {"nats_url": urls, "nats_seed": users.seeds.kept(MONITOR), "teams": str(folder), "stream_replicas": "3"}
        given["nats_monitor_urls"] = ",".join(f"http://127.0.0.1:{broker.monitor_port}" for broker in brokers)
        _, monitor = await enter(listening_service(MONITOR, MonitorSettings, build_monitor, given))
        yield Platform(brokers, front, worker, monitor, users)


@pytest.fixture
def pallas(platform: Platform, tmp_path: Path) -> Pallas:
    """The command, for an operator who has the seeds."""
    seeds = {
        "PALLAS_NATS_SEED_FILE": str(platform.users.seeds.path(CLI)),
        "PALLAS_NATS_SYSTEM_SEED_FILE": str(platform.users.seeds.path(SYSTEM)),
    }
    return Pallas({"PALLAS_NATS_URL": platform.urls, **seeds}, tmp_path)


async def test_an_operator_sees_servers_and_streams_and_moves_leaders(platform: Platform, pallas: Pallas) -> None:
    for stream, to in ((TURN_QUEUE, "n0"), (TURN_LOG, "n1")):
        moved = await pallas.done("broker", "step-down", stream.name, "--to", to, "--json")
        assert moved.json["leader"] == to
    seen = (await pallas.done("broker", "status", "--json")).json
    assert [(server["name"], server["cluster"]) for server in seen["servers"]] == [("n0", 3), ("n1", 3), ("n2", 3)]
    assert seen["streams"]["TURN_LOG"] == {"leader": "n1", "lags": {"n0": 0, "n2": 0}}
    assert ["TURN_QUEUE", "n0", "n1 ok, n2 ok"] in (await pallas.done("broker", "status")).rows
    assert await pallas.refused("broker", "step-down", "NONE") != []
    [line] = await pallas.refused("broker", "step-down", "TURN LOG", code=2)
    assert "'TURN LOG' is not the name of a stream" in line
    system = Access(platform.urls, SecretStr(platform.users.seeds.kept(SYSTEM)))
    async with connect(system, CLI) as bus:
        assert (await bus.api("META.LEADER.STEPDOWN", {}))["success"] is True
    platform.brokers[2].kill9()
    lost = await pallas("broker", "status")
    assert (lost.code, "1 of 3 servers do not answer" in lost.err) == (1, True)
    platform.brokers[2].start()


async def test_a_lost_quorum_is_reported_answered_quietly_endured_and_recovered_from(
    platform: Platform, pallas: Pallas, caplog: pytest.LogCaptureFixture
) -> None:
    await eventually(lambda: platform.leaderless(TURN_LOG.name) == 0, WITHIN)
    await eventually(lambda: not any(process.probes.missing() for process in platform.processes), WITHIN)
    assert not (await platform.call())[0].is_error

    for broker in platform.brokers[1:]:
        broker.kill9()
    await eventually(lambda: platform.front.process.probes.missing() == {"streams": LOST}, WITHIN)
    await eventually(lambda: "streams" in platform.worker.probes.missing(), WITHIN)
    for stream in (TURN_LOG, TURN_QUEUE):
        await eventually(lambda name=stream.name: platform.leaderless(name) == 1, WITHIN)
    assert measured(platform.monitor, "pallas_broker_up", server="n0") == 1
    assert measured(platform.monitor, "pallas_broker_up", server="n1") == 0
    assert measured(platform.monitor, "pallas_broker_cluster_size") == 3

    refused, seconds = await platform.call()
    assert seconds < ANSWERED_WITHIN
    fault: dict[str, Any] = (refused.meta or {})["pallas/error"]
    assert (fault["code"], fault["retryable"], fault["retry_after_ms"]) == ("busy", True, 5000)
    assert most_repeated(caplog.records) <= CONNECTIONS
    assert "no leader: " in (await pallas("broker", "status")).err

    for broker in platform.brokers[1:]:
        broker.start()
    await eventually(lambda: not any(process.probes.missing() for process in platform.processes), WITHIN)
    await eventually(lambda: platform.leaderless(TURN_LOG.name) == 0, WITHIN)
    assert not (await platform.call())[0].is_error


def most_repeated(records: Sequence[logging.LogRecord]) -> int:
    """How often the most frequent warning was logged."""
    warnings = Counter(record.getMessage() for record in records if record.levelno >= logging.WARNING)
    return max(warnings.values(), default=0)
