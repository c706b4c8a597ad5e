"""Builds the pool: it registers data agents and executes their turns."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from data_pool.hosting import Heartbeats, HostAgents, forget_silent
from data_pool.http.routing import AgentHttp
from data_pool.methods import AgentMethods
from data_pool.metrics import make_metrics
from data_pool.reaching.endpoint import GuardedTransport, guarded_client
from data_pool.reaching.links import Links
from data_pool.registering.registrations import Quota, Registrars, Registrations, Share
from data_pool.settings import PoolSettings
from pallas_bus.ask import answer, answering, ask
from pallas_bus.errors import polling
from pallas_bus.kv import watch
from pallas_bus.leaders import watch_leaders
from pallas_contracts.catalog import (
    AGENTS,
    ASK_POOL,
    DATA_AGENTS,
    DATA_TEAM,
    HEARTBEATS,
    POOL,
    RESOLVE,
    TURN_LOG,
    WORKERS,
)
from pallas_runtime.http.bearers import Bearers
from pallas_runtime.http.senders import accepted_hosts
from pallas_runtime.process import STORED, Process
from pallas_runtime.run import Service
from pallas_turns.executor import Executor, Troubles, execute_turns
from pallas_turns.offer import connect_service, offer_agents, publish_again

_PULL_SECONDS = 60.0
"""How long a pull waits for a turn. There is one for each agent, and most agents have nothing to do."""
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
    registrars = Registrars(settings.registrars)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        bus = await enter(connect_service(settings, process, POOL, DATA_AGENTS, HEARTBEATS))
        metrics = make_metrics(process.probes.metrics)
        registered, beats = await enter(watch(bus, DATA_AGENTS)), await enter(watch(bus, HEARTBEATS))
        published, workers = await enter(watch(bus, AGENTS, team=DATA_TEAM)), await enter(watch(bus, WORKERS))
        http = await enter(guarded_client(GuardedTransport(settings.pool_networks)))
        executor = await enter(
            execute_turns(bus, settings, process, metrics.executor, slots=settings.slots, pull_seconds=_PULL_SECONDS)
        )
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
        forget = partial(forget_silent, registrations, hosting, settings.pool_forget_hours * 3600)
        await enter(polling(bus, forget, _FORGET_EVERY))
        troubles = Troubles(agents=hosting.troubles)
        publish_again(bus, registrations.publish_lost)
        await enter(offer_agents(executor, process, publish=[registrations.publish_missing], troubles=troubles))
        service = await answering(bus, description="registers data agents")
        stack.push_async_callback(service.finish)
        await answer(bus, service, ASK_POOL, methods.ask)
        bearers = Bearers(settings.gateway_auth, partial(ask, bus, RESOLVE), metrics.auth_failures)
        hosts = accepted_hosts(settings.public_url, settings.allowed_hosts, settings.allowed_origins)
        serving = AgentHttp(methods, bearers, hosts, 2 * each.agents)  # all agents may connect again at a time
        metrics.watch(lambda: serving.connected)
        yield Pool(serving, executor)


SERVICE = Service("data-pool", PoolSettings, build, websockets=True)
