"""Builds the service: it checks, stores and executes pipelines."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from pallas_bus.ask import ask
from pallas_bus.errors import poll_now, polling
from pallas_bus.kv import watch
from pallas_bus.streams import within
from pallas_contracts.catalog import (
    AGENTS,
    BUDGETS,
    CONSTELLATION,
    GATEWAYS,
    HEALTH,
    PIPELINE_CACHE,
    PIPELINE_DRAFTS,
    PIPELINE_IMAGES,
    PIPELINE_NAMES,
    PIPELINE_NAMESPACES,
    PIPELINES,
    PIPELINES_TEAM,
    RESOLVE,
    SPENDING,
    SUSPENSIONS,
    WORKERS,
)
from pallas_hosting.functions.runtime import FunctionRuntime
from pallas_runtime.http.bearers import Bearers
from pallas_runtime.process import STORED, Process
from pallas_runtime.run import Service
from pallas_runtime.settings import log_key_of
from pallas_turns.calls import make_calls
from pallas_turns.executor import Executor, Troubles, execute_turns
from pallas_turns.offer import connect_service, offer_agents, publications
from pallas_turns.runtime import HostedAgent
from pipelines.agent.resources import definition_of, make_agent
from pipelines.agent.tools import Handlers
from pipelines.handlers.keep_pipelines import KeepPipelines
from pipelines.handlers.list_executions import ListExecutions
from pipelines.handlers.views import ListModules, ViewPipelines
from pipelines.http.routing import PipelinesHttp, make_http
from pipelines.http.turns import Turns
from pipelines.metrics import make_metrics
from pipelines.modules.catalogue import Catalogue
from pipelines.programs import Compiler
from pipelines.running.agents import ConstellationRuntime, PublishedRuntime
from pipelines.running.cache import Cache
from pipelines.running.executing import Engine, cancel_children, give_back_lost
from pipelines.running.suspending import Suspensions
from pipelines.settings import PipelinesSettings
from pipelines.storing.drift import Drift
from pipelines.storing.history import Executions
from pipelines.storing.pipelines import SWEEP_SECONDS, open_pipelines
from pipelines.storing.publishing import published_definition
from pipelines.storing.scopes import Scopes

_OWN = (PIPELINE_NAMES, PIPELINE_IMAGES, PIPELINE_DRAFTS, PIPELINE_NAMESPACES, SUSPENSIONS, PIPELINE_CACHE)


@dataclass(frozen=True)
class Pipelines:
    """The running service."""

    http: PipelinesHttp
    executor: Executor
    engine: Engine
    handlers: Handlers

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
    scopes = Scopes.of(settings)
    key = log_key_of(settings.log_key, "executions of an agent's label are found only at this replica")
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        own = [within(settings.store_bytes, bucket) for bucket in _OWN]
        bus = await enter(connect_service(settings, process, PIPELINES, *own, GATEWAYS, BUDGETS, SPENDING))
        metrics = make_metrics(process.probes.metrics)
        agents, workers = await enter(watch(bus, AGENTS)), await enter(watch(bus, WORKERS))
        gateways = await enter(watch(bus, GATEWAYS))
        agents.on_change(metrics.calls.agents.changed)
        store = partial(make_calls, store_bytes=settings.store_bytes, team_share=settings.team_store_share)
        calls = await enter(store(bus, gateways, workers, metrics.calls, alone=True))
        process.probes.checks[STORED] = calls.leaders.missing
        process.vital(calls.liveness.keeping)
        process.probes.checks["budgets"] = calls.admission.budgets.missing
        executor = await enter(execute_turns(bus, settings, process, metrics.executor, slots=settings.slots))
        catalogue = Catalogue((await enter(watch(bus, HEALTH))).get)
        agents.on_change(catalogue.changed)
        process.probes.checks["catalogue"] = lambda: None if agents.synced.is_set() else "not read yet"
        compiler = Compiler(catalogue)
        engine = Engine(calls, catalogue, Cache(bus), settings.pipeline_calls)
        store = await enter(open_pipelines(bus))
        suspensions = Suspensions(bus)
        handlers = Handlers(
            scopes,
            compiler,
            ListModules(catalogue),
            KeepPipelines(compiler, store),
            ViewPipelines(compiler, store),
            ListExecutions(bus, Executions(bus, key), suspensions, compiler, store),
        )
        agent = make_agent(handlers)
        definition = definition_of(agent)
        functions = FunctionRuntime(CONSTELLATION, agent)
        runtime = ConstellationRuntime(functions, engine, compiler, suspensions, store, scopes)
        published = PublishedRuntime(engine, compiler, store, scopes)
        abandon = partial(cancel_children, bus)
        hosted = [
            HostedAgent(definition, runtime, abandon=abandon),
            HostedAgent(published_definition(()), published, abandon=abandon),
        ]
        await agents.synced.wait()  # a program is checked against all modules
        await executor.host(PIPELINES_TEAM, hosted)
        for poll in (store.publish_definition, partial(give_back_lost, bus, calls.liveness)):
            bus.spawn(poll_now(poll))
        await enter(polling(bus, store.sweep, SWEEP_SECONDS))
        await enter(process.running(Drift(store, catalogue).keep(agents.synced), "drift"))
        await enter(offer_agents(executor, process, publish=publications(bus, hosted[:1]), troubles=Troubles()))
        bearers = Bearers(settings.gateway_auth, partial(ask, bus, RESOLVE), metrics.auth_failures)
        made = Turns(calls, key, definition)
        http = make_http(settings, process.probes, metrics.requests, scopes, bearers, handlers, suspensions, made)
        yield Pipelines(http, executor, engine, handlers)


SERVICE = Service("pipelines", PipelinesSettings, build)
