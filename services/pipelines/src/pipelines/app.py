"""Builds the service: it checks, stores and executes pipelines."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from mcp.server.transport_security import TransportSecuritySettings

from pallas_bus.transport.access import Access
from pallas_bus.transport.ask import ask
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
    RESOLVE,
    SUSPENSIONS,
    TURN_LOG,
    TURN_QUEUE,
    WORKERS,
)
from pallas_contracts.keyed import LogKey
from pallas_executor.agent_runtime import HostedAgent, Turn
from pallas_executor.executor import Executor, Troubles, execute_turns
from pallas_executor.functions.runtime import FunctionRuntime
from pallas_executor.publish_definitions import publish_definition
from pallas_runtime.http.bearers import Bearers
from pallas_runtime.http.hosts import accepted_hosts
from pallas_runtime.process import Process
from pipelines.agent.constellation import make_agent
from pipelines.agent.definition import definition_of
from pipelines.handlers.check_program import CheckProgram
from pipelines.handlers.list_modules import ListModules
from pipelines.http.executions import ExecutionRoutes
from pipelines.http.identity import Callers
from pipelines.http.modules import ModuleRoutes
from pipelines.http.pipelines import PipelineRoutes
from pipelines.http.programs import ProgramRoutes
from pipelines.http.rates import Rates
from pipelines.http.routing import PipelinesHttp
from pipelines.http.runs import RunRoutes
from pipelines.http.turns import Turns
from pipelines.metrics import RequestMetrics, make_metrics
from pipelines.modules.catalogue import Catalogue
from pipelines.programs.compiler import Compiler
from pipelines.running.abandoning import cancel_children
from pipelines.running.cache import Cache
from pipelines.running.constellation import ConstellationRuntime
from pipelines.running.executing import Engine
from pipelines.running.suspending import Suspensions
from pipelines.settings import PipelinesSettings
from pipelines.storing.drift import watching_drift
from pipelines.storing.history import Executions
from pipelines.storing.namespaces import Caller
from pipelines.storing.pipelines import SWEEP_SECONDS, StoredPipelines, open_pipelines
from pipelines.storing.scopes import Scopes

log = logging.getLogger(__name__)

_PUBLISH_EVERY = 60.0
_OWN = (PIPELINE_NAMES, PIPELINE_IMAGES, PIPELINE_DRAFTS, PIPELINE_NAMESPACES, SUSPENSIONS, PIPELINE_CACHE)


@dataclass(frozen=True)
class Pipelines:
    """The running service."""

    http: PipelinesHttp
    executor: Executor
    engine: Engine

    async def drain(self) -> None:
        """Take no more turns, and give those that run back at their next boundary."""
        self.engine.calls.draining = True
        await asyncio.gather(self.executor.drain(), self.http.finish())


@asynccontextmanager
async def build(settings: PipelinesSettings, process: Process) -> AsyncGenerator[Pipelines]:
    """Connect, follow the catalogue, and execute the turns of the agents of pipelines.

    Raises:
        Rejected: a setting is invalid.
    """
    access, scopes, key = Access.of(settings), Scopes.of(settings), _log_key(settings)
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
        executing = execute_turns(
            bus,
            access,
            process,
            metrics.executor,
            slots=settings.slots,
            content_seconds=settings.content_seconds,
        )
        executor = await enter(executing)
        catalogue = Catalogue()
        agents.on_change(catalogue.changed)
        process.probes.checks["catalogue"] = lambda: None if agents.synced.is_set() else "not read yet"
        compiler = Compiler(catalogue)
        engine = Engine(calls, catalogue, Cache(bus), settings.pipeline_calls)
        store = await enter(open_pipelines(bus))
        await enter(watching_drift(store, catalogue, agents.synced))
        await enter(polling(bus, store.sweep, SWEEP_SECONDS))
        programs, listing, suspensions = CheckProgram(compiler), ListModules(catalogue), Suspensions(bus)
        agent = make_agent(programs, listing)
        functions = FunctionRuntime(CONSTELLATION, agent)
        find_source = partial(_find_source, store, scopes)
        runtime = ConstellationRuntime(functions, engine, compiler, suspensions, find_source)
        definition = definition_of(agent)
        abandon = partial(cancel_children, bus)
        await executor.host(PIPELINES_TEAM, [HostedAgent(definition, runtime, abandon=abandon)])
        publish = partial(publish_definition, bus, definition)
        bus.spawn(poll_now(publish))
        await enter(polling(bus, publish, _PUBLISH_EVERY))
        await enter(process.running(executor.send_presence(Troubles()), "presence"))
        bearers = Bearers(settings.gateway_auth, partial(ask, bus, RESOLVE), metrics.auth_failures)
        turns = Turns(calls, key, definition)
        executions = ExecutionRoutes(turns, suspensions, Executions(bus, key))
        process.probes.json_metrics = True
        http = PipelinesHttp(
            [
                *ProgramRoutes(programs, store).routes(),
                *RunRoutes(programs, store, turns).routes(),
                *ModuleRoutes(listing).routes(),
                *PipelineRoutes(programs, listing, store).routes(),
                *executions.routes(),
            ],
            Callers(scopes, bearers),
            Rates(settings.pipeline_rate, settings.pipeline_burst),
            _security(settings),
            process.probes,
            RequestMetrics(metrics.requests, key.conversation),
            executions.streams,
        )
        yield Pipelines(http, executor, engine)


async def _find_source(store: StoredPipelines, scopes: Scopes, turn: Turn, ref: str) -> str:
    caller = Caller(turn.principal, turn.correlation, scopes.scope_of(turn.principal))
    return (await store.get(caller, ref)).image.source


def _log_key(settings: PipelinesSettings) -> LogKey:
    if settings.log_key is None:
        log.info("no PALLAS_LOG_KEY: the history of an agent's label is that of this process only")
        return LogKey(secrets.token_hex(32))
    return LogKey(settings.log_key.get_secret_value())


def _security(settings: PipelinesSettings) -> TransportSecuritySettings:
    accepted = accepted_hosts(settings.public_url, settings.allowed_hosts, settings.allowed_origins)
    if accepted is None:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=accepted.hosts, allowed_origins=accepted.origins
    )
