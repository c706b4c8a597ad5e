"""Builds the service: it checks, stores and executes pipelines."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from starlette.types import ASGIApp

from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import connect_when_possible
from pallas_bus.transport.kv import watch
from pallas_bus.transport.polling import poll_now, polling
from pallas_bus.transport.streams import declare
from pallas_calls.service import make_calls
from pallas_contracts.catalog import (
    AGENTS,
    CONSTELLATION,
    DEAD_LETTERS,
    GATEWAYS,
    PIPELINE_CACHE,
    PIPELINE_DRAFTS,
    PIPELINE_IMAGES,
    PIPELINE_NAMES,
    PIPELINE_NAMESPACES,
    PIPELINES,
    PIPELINES_TEAM,
    SUSPENSIONS,
    TURN_LOG,
    TURN_QUEUE,
    WORKERS,
)
from pallas_contracts.errors import NotFound
from pallas_executor.agent_runtime import HostedAgent, Turn
from pallas_executor.executor import Executor, Troubles, execute_turns
from pallas_executor.functions.runtime import FunctionRuntime
from pallas_executor.publish_definitions import publish_definition
from pallas_runtime.process import Process
from pipelines.agent.constellation import make_agent
from pipelines.agent.definition import definition_of
from pipelines.handlers.check_program import CheckProgram
from pipelines.handlers.list_modules import ListModules
from pipelines.metrics import make_metrics
from pipelines.modules.catalogue import Catalogue
from pipelines.programs.compiler import Compiler
from pipelines.running.abandoning import cancel_children
from pipelines.running.cache import Cache
from pipelines.running.constellation import ConstellationRuntime
from pipelines.running.executing import Engine
from pipelines.running.suspending import Suspensions
from pipelines.settings import PipelinesSettings

_PUBLISH_EVERY = 60.0
_OWN = (PIPELINE_NAMES, PIPELINE_IMAGES, PIPELINE_DRAFTS, PIPELINE_NAMESPACES, SUSPENSIONS, PIPELINE_CACHE)


@dataclass(frozen=True)
class Pipelines:
    """The running service."""

    http: ASGIApp | None
    executor: Executor
    engine: Engine

    async def drain(self) -> None:
        """Take no more turns, and give those that run back at their next boundary."""
        self.engine.calls.draining = True
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
        calls = await enter(make_calls(bus, gateways, workers, metrics.calls, alone=True))
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
        catalogue = Catalogue()
        agents.on_change(catalogue.changed)
        process.probes.checks["catalogue"] = lambda: None if agents.synced.is_set() else "not read yet"
        compiler = Compiler(catalogue)
        engine = Engine(calls, catalogue, Cache(bus), settings.pipeline_calls)
        agent = make_agent(CheckProgram(compiler), ListModules(catalogue))
        functions = FunctionRuntime(CONSTELLATION, agent)
        runtime = ConstellationRuntime(functions, engine, compiler, Suspensions(bus), _find_source)
        definition = definition_of(agent)
        abandon = partial(cancel_children, bus)
        await executor.host(PIPELINES_TEAM, [HostedAgent(definition, runtime, abandon=abandon)])
        publish = partial(publish_definition, bus, definition)
        bus.spawn(poll_now(publish))
        await enter(polling(bus, publish, _PUBLISH_EVERY))
        await enter(process.running(executor.send_presence(Troubles()), "presence"))
        yield Pipelines(None, executor, engine)


async def _find_source(turn: Turn, ref: str) -> str:
    raise NotFound(f"There is no pipeline {ref!r}.", code="unknown_pipeline")
