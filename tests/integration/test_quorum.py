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
from tests.cluster import lead, three_brokers
from tests.embedded import NatsServer
from tests.integration.real_parts import Front, a_gateway, a_lab, a_process, a_worker, listening_service, measured
from tests.waiting import eventually

from health_monitor.app import build as build_monitor
from health_monitor.settings import MonitorSettings
from pallas_bus.transport.connection import connect
from pallas_contracts.catalog import CLI, TURN_LOG, TURN_QUEUE
from pallas_runtime.process import Process

WITHIN = 60.0
ANSWERED_WITHIN = 1.0
"""Seconds. Without leaders nothing is waited for."""

LOST = "no leader: TURN_LOG, TURN_QUEUE"
CONNECTIONS = 10
"""More than all connections to the broker in this process, each of which logs for itself."""


@dataclass
class Platform:
    """Gateway, worker and monitor on three brokers; the one that stays leads the queue, another one the log."""

    brokers: Sequence[NatsServer]
    front: Front
    team: str
    worker: Process
    monitor: Process

    @property
    def processes(self) -> tuple[Process, ...]:
        """Those that write to streams."""
        return self.front.process, self.worker, self.monitor

    async def call(self) -> tuple[CallToolResult, float]:
        """Call a tool; its result, and how many seconds that took."""
        async with self.front.client(self.team, "bench") as client:
            began = time.monotonic()
            result = await client.call_tool("say", {})
            return result, time.monotonic() - began

    def leaderless(self, stream: str) -> float | None:
        """The gauge of a stream."""
        return self.monitor.probes.metrics.get_sample_value("pallas_stream_leaderless", {"stream": stream})


@pytest.fixture
async def platform(team: str, tmp_path: Path) -> AsyncGenerator[Platform]:
    """All of it, ready."""
    folder = a_lab(tmp_path / "team", team)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        brokers = await enter(three_brokers())
        urls, worker = ",".join(broker.url for broker in brokers), a_process("agent-worker")
        front = await enter(a_gateway(urls, stream_replicas="3"))
        await enter(a_worker(urls, folder, process=worker))
        monitors = ",".join(f"http://127.0.0.1:{broker.monitor_port}" for broker in brokers)
        given = {"nats_url": urls, "teams": str(folder), "stream_replicas": "3", "nats_monitor_urls": monitors}
        _, monitor = await enter(listening_service("health-monitor", MonitorSettings, build_monitor, given))
        async with connect(brokers[0].url, CLI) as bus:
            await lead(bus, TURN_QUEUE, ["n0"])
            await lead(bus, TURN_LOG, ["n1", "n2"])
        yield Platform(brokers, front, team, worker, monitor)


async def test_a_lost_quorum_is_reported_answered_quietly_endured_and_recovered_from(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    await eventually(lambda: platform.leaderless(TURN_LOG.name) == 0, WITHIN)
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

    for broker in platform.brokers[1:]:
        broker.start()
    await eventually(lambda: not any(process.probes.missing() for process in platform.processes), WITHIN)
    await eventually(lambda: platform.leaderless(TURN_LOG.name) == 0, WITHIN)
    assert not (await platform.call())[0].is_error


def most_repeated(records: Sequence[logging.LogRecord]) -> int:
    """How often the most frequent warning was logged."""
    warnings = Counter(record.getMessage() for record in records if record.levelno >= logging.WARNING)
    return max(warnings.values(), default=0)
