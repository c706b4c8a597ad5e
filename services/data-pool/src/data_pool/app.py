"""Builds the pool: it registers data agents and executes their turns."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from data_pool.hosting.forget_silent import forget_silent
from data_pool.hosting.heartbeats import Heartbeats
from data_pool.hosting.host_agents import HostAgents
from data_pool.http.routing import AgentHttp
from data_pool.methods import AgentMethods
from data_pool.metrics import make_metrics
from data_pool.reaching.guard import GuardedTransport, guarded_client
from data_pool.reaching.links import Links
from data_pool.registering.quota import Quota, Share
from data_pool.registering.registrars import Registrars
from data_pool.registering.registrations import Registrations
from data_pool.settings import PoolSettings
from pallas_bus.transport.access import Access
from pallas_bus.transport.ask import answer, answering, ask
from pallas_bus.transport.connection import connect_when_possible
from pallas_bus.transport.kv import watch
from pallas_bus.transport.leaders import watch_leaders
from pallas_bus.transport.polling import poll_now, polling
from pallas_bus.transport.streams import declare
from pallas_contracts.catalog import (
    AGENTS,
    ASK_POOL,
    DATA_AGENTS,
    DATA_TEAM,
    DEAD_LETTERS,
    HEARTBEATS,
    HOLDS,
    POOL,
    RESOLVE,
    TURN_LOG,
    TURN_QUEUE,
    WORKERS,
)
from pallas_executor.executor import Executor, Troubles, execute_turns
from pallas_runtime.http.bearers import Bearers
from pallas_runtime.http.hosts import accepted_hosts
from pallas_runtime.process import STORED, Process

_PULL_SECONDS = 60.0
"""How long a pull waits for a turn. There is one for each agent, and most agents have nothing to do."""
_PUBLISH_EVERY = 60.0
_FORGET_EVERY = 600.0


@dataclass(frozen=True)
class Pool:
    """The running service."""

    http: AgentHttp
    executor: Executor

    async def drain(self) -> None:
        """Take no more turns, finish those that run, and send the agents to other replicas."""
        await asyncio.gather(self.executor.drain(), self.http.finish())


@asynccontextmanager
async def build(settings: PoolSettings, process: Process) -> AsyncGenerator[Pool]:
    """Connect, follow the registrations, execute the turns of agents that can be reached, and let agents register.

    Raises:
        Rejected: a setting is invalid.
    """
    access, registrars = Access.of(settings), Registrars(settings.registrars)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        bus = await enter(connect_when_possible(access, POOL, instance=process.instance))
        await enter(process.uses(bus))
        everything = (DATA_AGENTS, HEARTBEATS, AGENTS, WORKERS, HOLDS, TURN_QUEUE, TURN_LOG, DEAD_LETTERS)
        await declare(bus, *everything, replicas=settings.stream_replicas)
        metrics = make_metrics(process.probes.metrics)
        registered, beats = await enter(watch(bus, DATA_AGENTS)), await enter(watch(bus, HEARTBEATS))
        published, workers = await enter(watch(bus, AGENTS, team=DATA_TEAM)), await enter(watch(bus, WORKERS))
        http = await enter(guarded_client(GuardedTransport(settings.pool_networks)))
        turns = execute_turns(
            bus,
            access,
            process,
            metrics.executor,
            slots=settings.slots,
            content_seconds=settings.content_seconds,
            hold=settings.hold,
            pull_seconds=_PULL_SECONDS,
        )
        executor = await enter(turns)
        await executor.watch(DATA_TEAM)
        leaders = await enter(watch_leaders(bus, TURN_LOG, team=DATA_TEAM))
        process.probes.checks[STORED] = leaders.missing
        heartbeats = Heartbeats(bus, beats)
        links = Links(bus, http, settings.pool_networks)
        stack.push_async_callback(links.close)
        hosting = HostAgents(executor, registered, heartbeats, links, settings.pool_patience)
        registered.on_change(hosting.on_registered)
        workers.on_change(hosting.on_presence)
        await enter(process.running(hosting.run(), "hosting of agents"))
        each = Share(settings.pool_agents_each, settings.pool_mib_each)
        quota = Quota(each, Share(settings.pool_agents, settings.pool_mib))
        registrations = Registrations(bus, registrars, quota, registered, published)
        methods = AgentMethods(registrations, hosting, metrics, settings.gateway_url)
        bus.spawn(poll_now(registrations.publish_missing))
        await enter(polling(bus, registrations.publish_missing, _PUBLISH_EVERY))
        forget = partial(forget_silent, registrations, hosting, settings.pool_forget_hours * 3600)
        await enter(polling(bus, forget, _FORGET_EVERY))
        presence = executor.send_presence(Troubles(agents=hosting.troubles))
        await enter(process.running(presence, "presence"))
        service = await answering(bus, description="registers data agents")
        stack.push_async_callback(service.finish)
        await answer(bus, service, ASK_POOL, methods.ask)
        bearers = Bearers(settings.gateway_auth, partial(ask, bus, RESOLVE), metrics.auth_failures)
        hosts = accepted_hosts(settings.public_url, settings.allowed_hosts, settings.allowed_origins)
        serving = AgentHttp(methods, bearers, hosts, 2 * each.agents)  # all agents may connect again at a time
        metrics.watch(lambda: serving.connected)
        yield Pool(serving, executor)
