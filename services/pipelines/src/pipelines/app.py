"""Builds the service: it checks, stores and executes pipelines."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp

from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import connect_when_possible
from pallas_bus.transport.kv import watch
from pallas_bus.transport.streams import declare
from pallas_calls.service import Calls, make_calls
from pallas_contracts.catalog import (
    AGENTS,
    DEAD_LETTERS,
    GATEWAYS,
    PIPELINE_CACHE,
    PIPELINE_DRAFTS,
    PIPELINE_IMAGES,
    PIPELINE_NAMES,
    PIPELINE_NAMESPACES,
    PIPELINES,
    SUSPENSIONS,
    TURN_LOG,
    TURN_QUEUE,
    WORKERS,
)
from pallas_executor.executor import Executor, Troubles, execute_turns
from pallas_runtime.process import Process
from pipelines.metrics import make_metrics
from pipelines.settings import PipelinesSettings

_OWN = (PIPELINE_NAMES, PIPELINE_IMAGES, PIPELINE_DRAFTS, PIPELINE_NAMESPACES, SUSPENSIONS, PIPELINE_CACHE)


@dataclass(frozen=True)
class Pipelines:
    """The running service."""

    http: ASGIApp | None
    executor: Executor
    calls: Calls

    async def drain(self) -> None:
        """Take no more turns, and give those that run back at their next boundary."""
        self.calls.draining = True
        await self.executor.drain()


@asynccontextmanager
async def build(settings: PipelinesSettings, process: Process) -> AsyncGenerator[Pipelines]:
    """Connect, follow the catalogue, and execute the turns of the agents of pipelines.

    Raises:
        Rejected: a setting is invalid.
    """
    access = Access.of(settings)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        bus = await enter(connect_when_possible(access, PIPELINES, instance=process.instance))
        await enter(process.uses(bus))
        everything = (*_OWN, AGENTS, WORKERS, GATEWAYS, TURN_QUEUE, TURN_LOG, DEAD_LETTERS)
        await declare(bus, *everything, replicas=settings.stream_replicas)
        metrics = make_metrics(process.probes.metrics)
        agents, workers = await enter(watch(bus, AGENTS)), await enter(watch(bus, WORKERS))
        gateways = await enter(watch(bus, GATEWAYS))
        agents.on_change(metrics.calls.agents.changed)
        calls = await enter(make_calls(bus, gateways, workers, metrics.calls))
        process.vital(calls.liveness.keeping)
        turns = execute_turns(
            bus,
            access,
            process,
            metrics.executor,
            slots=settings.slots,
            content_seconds=settings.content_seconds,
        )
        executor = await enter(turns)
        await enter(process.running(executor.send_presence(Troubles()), "presence"))
        yield Pipelines(None, executor, calls)
