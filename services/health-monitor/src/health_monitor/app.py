"""Builds the health monitor: it reads definitions and presence, probes dependencies, and publishes health."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx

from health_monitor.broker.measure_depths import measure_depths
from health_monitor.broker.measure_teams import measure_teams
from health_monitor.broker.monitoring import TIMEOUT
from health_monitor.broker.publications import Publications
from health_monitor.broker.turn_queue import TurnQueue
from health_monitor.broker.watch_servers import WatchServers
from health_monitor.judging.monitor import Monitor
from health_monitor.metrics import Metrics, make_metrics
from health_monitor.probes.mcp_probe import McpProbe
from health_monitor.probes.model_probe import ModelProbe
from health_monitor.probes.probing import make_http
from health_monitor.probes.shared_probes import SharedProbes
from health_monitor.settings import MonitorSettings
from health_monitor.spending.keep_spending import KeepSpending
from health_monitor.team_folders import TeamFolders
from pallas_bus import ask, streams
from pallas_bus.access import Access
from pallas_bus.connection import Bus, connect_when_possible
from pallas_bus.kv import watch
from pallas_bus.leaders import watch_leaders
from pallas_contracts.catalog import AGENTS, CHECK_HEALTH, HEALTH, MONITOR, PROBES, WORKERS
from pallas_runtime.process import STORED, Process
from pallas_runtime.run import Service, Simple


@asynccontextmanager
async def build(settings: MonitorSettings, process: Process) -> AsyncGenerator[Simple]:
    """Connect, wait until agents and workers are known, and yield the monitor after its first round."""
    metrics = make_metrics(process.probes.metrics)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_watching_servers(settings, process, metrics))
        access = Access.of(settings)
        bus = await stack.enter_async_context(connect_when_possible(access, MONITOR, instance=process.instance))
        await stack.enter_async_context(process.uses(bus))
        await streams.declare(bus, HEALTH, PROBES, replicas=settings.stream_replicas)
        leaders = await stack.enter_async_context(watch_leaders(bus, HEALTH, PROBES))
        process.probes.checks[STORED] = leaders.missing
        agents = await stack.enter_async_context(watch(bus, AGENTS))
        workers = await stack.enter_async_context(watch(bus, WORKERS))
        health = await stack.enter_async_context(watch(bus, HEALTH))
        probes = await stack.enter_async_context(watch(bus, PROBES))
        for table in (agents, workers, health, probes):
            await table.synced.wait()
        http = await stack.enter_async_context(make_http(settings.probe_timeout))
        mcp = McpProbe(http, settings.probe_timeout)
        stack.push_async_callback(mcp.close)
        publications = Publications(bus, settings.probe_interval, health, probes)
        model = ModelProbe(http, settings.probe_timeout)
        folders = TeamFolders(settings.teams, os.environ, metrics.folder_read)
        monitor = Monitor(
            addresses=folders,
            probes=SharedProbes(mcp, model, publications, metrics),
            queue=TurnQueue(bus),
            publications=publications,
            metrics=metrics,
            interval=settings.probe_interval,
            slow=settings.probe_slow,
        )
        agents.on_change(monitor.agent_changed)
        workers.on_change(monitor.worker_changed)
        process.vital(bus.spawn(measure_depths(bus, agents, metrics)))
        await folders.reload()
        process.vital(bus.spawn(measure_teams(bus, agents, folders, metrics, settings.measure_interval)))
        spending = KeepSpending(bus)
        process.vital(bus.spawn(spending.run()))
        metrics.spending_lag.set_function(lambda: spending.lag)
        async with _started(bus, monitor, process) as service:
            yield service


@asynccontextmanager
async def _watching_servers(settings: MonitorSettings, process: Process, metrics: Metrics) -> AsyncGenerator[None]:
    """Show the figures of the broker's servers from the start on: they matter most when the broker has failed."""
    async with make_http(TIMEOUT) as http:
        urls = [httpx.URL(url) for url in settings.nats_monitor_urls]
        watch_servers = WatchServers(http, urls, metrics.broker)
        async with process.running(watch_servers.keep(), "watching the broker's servers"):
            yield


@asynccontextmanager
async def _started(bus: Bus, monitor: Monitor, process: Process) -> AsyncGenerator[Simple]:
    """Run the first round, then start the loops and answer questions."""
    await monitor.run_round()
    loops = [process.vital(bus.spawn(loop)) for loop in (_run_rounds(monitor), _follow_changes(monitor))]

    async def drain() -> None:
        """Start no more rounds and cancel the running probes."""
        for loop in loops:
            loop.cancel()
        await monitor.close()

    answers = await ask.answering(bus, description="Probes what agents depend on")
    await ask.answer(bus, answers, CHECK_HEALTH, monitor.check_health)
    try:
        yield Simple(drain=drain)
    finally:
        await drain()


async def _run_rounds(monitor: Monitor) -> None:
    started = time.monotonic()
    while True:
        await asyncio.sleep(max(0.0, started + monitor.interval - time.monotonic()))
        started = time.monotonic()
        await monitor.run_round()


async def _follow_changes(monitor: Monitor) -> None:
    while True:
        await monitor.changed.wait()
        monitor.changed.clear()
        await monitor.catch_up()


SERVICE = Service("health-monitor", MonitorSettings, build)
