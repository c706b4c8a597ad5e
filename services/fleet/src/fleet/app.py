"""Builds the service: it offers the fleet as an agent, and watches the tasks of its coding agents."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from fleet.agent.schemas import CALLS, callers_of, fleet_definition, tasks_definition
from fleet.agent.tools import Handlers, add_resources, make_agent
from fleet.coder.client import Coder
from fleet.handlers.create_agent import CreateAgent
from fleet.handlers.delete_agent import DeleteAgent
from fleet.handlers.show import ShowAgent, ShowHistory, metadata_names
from fleet.handlers.start_task import StartTask
from fleet.handlers.wait_task import StopAgent, Transcript, WaitTask
from fleet.metrics import make_metrics
from fleet.owners import Owners, Sources
from fleet.reaching.http import Http
from fleet.running.finding import FindTask
from fleet.running.reconciling import Reconcile, WatchWorkers
from fleet.running.run_task import TaskRuntime
from fleet.running.stopping import StopTask
from fleet.seeing.fleet import SECONDS, Announcing, Fleet, Snapshots
from fleet.seeing.status import Terminals
from fleet.settings import FleetSettings
from fleet.storing.agents import Agents
from fleet.storing.tasks import Ending, Tasks
from pallas_bus.ask import announce_change
from pallas_bus.connection import Bus
from pallas_bus.errors import poll_now
from pallas_bus.kv import watch
from pallas_bus.leaders import watch_leaders
from pallas_contracts.agents import Trouble
from pallas_contracts.catalog import (
    FLEET,
    FLEET_AGENT,
    FLEET_AGENTS,
    FLEET_TASKS,
    FLEET_TASKS_AGENT,
    FLEET_TEAM,
    TURN_LOG,
)
from pallas_contracts.errors import Unavailable
from pallas_hosting.functions.runtime import FunctionRuntime
from pallas_runtime.process import STORED, Process
from pallas_runtime.run import Service
from pallas_turns.claims import watch_claims
from pallas_turns.executor import Executor, Holding, Troubles, execute_turns
from pallas_turns.liveness import watch_workers
from pallas_turns.offer import connect_service, offer_agents, publications
from pallas_turns.runtime import HostedAgent

_RECONCILE_EVERY = 30.0
_LOOK_AGAIN = 5.0
"""Seconds between two looks at a Coder that was away."""


@dataclass(frozen=True)
class FleetService:
    """The running service."""

    executor: Executor
    fleet: Fleet
    reconciling: "Reconciling"
    workers: WatchWorkers
    http: None = None

    async def drain(self) -> None:
        """Take no more turns, end calls, and give the tasks that are watched to other replicas."""
        await self.executor.drain()


@asynccontextmanager
async def build(settings: FleetSettings, process: Process) -> AsyncGenerator[FleetService]:
    """Connect, follow what is known of agents, and execute the turns of both agents.

    Raises:
        Rejected: a setting is invalid.
    """
    names = metadata_names(settings.fleet_metadata)
    allow = callers_of("PALLAS_FLEET_ALLOW", settings.fleet_allow)
    owners = Owners(callers_of("PALLAS_FLEET_OPERATORS", settings.fleet_operators))
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        metrics = make_metrics(process.probes.metrics)
        http = Http(settings.coder_url, settings.coder_token, ca=settings.coder_ca, count=metrics.requested)
        stack.push_async_callback(http.close)
        coder = Coder(http, apps=settings.fleet_apps, organization=settings.coder_organization)
        bus = await enter(connect_service(settings, process, FLEET, FLEET_AGENTS, FLEET_TASKS))
        table = await enter(watch(bus, FLEET_AGENTS))
        process.probes.checks["agents"] = lambda: None if table.synced.is_set() else "not read yet"
        slots = settings.fleet_tasks + CALLS
        executor = await enter(execute_turns(bus, settings, process, metrics.executor, slots=slots))
        leaders = await enter(watch_leaders(bus, TURN_LOG, team=FLEET_TEAM))
        process.probes.checks[STORED] = leaders.missing
        agents, tasks = Agents(bus, table), Tasks(bus)
        snapshots = Snapshots(coder, executor.presence_changed.set)
        fleet = Fleet(snapshots, Terminals(coder), agents, owners, settings.fleet_apps, settings.fleet_prefix)
        table.on_change(fleet.changed)
        metrics.watch(lambda status: sum(n for known, n in fleet.counted.items() if known == status))
        ending = Ending(agents, tasks)
        stopping = StopTask(bus, coder, agents, ending)
        finding = FindTask(bus, coder, agents, settings.fleet_prefix)
        reconcile, sources = Reconcile(stopping, finding), Sources(frozenset(settings.fleet_ai_tokens))
        deleting = DeleteAgent(bus, fleet, coder, agents, reconcile)
        starting = StartTask(fleet, stopping, finding, sources)
        most, wait = settings.fleet_max_agents, settings.fleet_create_wait
        handlers = Handlers(
            fleet,
            coder,
            CreateAgent(bus, fleet, coder, deleting, sources, most, wait),
            ShowAgent(fleet, coder, tasks, names),
            ShowHistory(fleet, tasks),
            deleting,
            starting,
            StopAgent(fleet, stopping, finding),
            WaitTask(fleet, agents, tasks, starting),
            Transcript(fleet, coder, agents, tasks),
        )
        agent = make_agent(handlers, extras=settings.fleet_extras)
        announcing = Announcing(partial(_announce, bus) if settings.fleet_extras else lambda uri: None)
        if settings.fleet_extras:
            add_resources(agent, handlers)
            table.on_change(announcing.changed)
            await enter(process.running(_look(fleet, announcing), "announcing"))
        hosted = [
            HostedAgent(
                fleet_definition(agent, allow),
                FunctionRuntime(FLEET_AGENT, agent, safe=True),
                abandon=starting.abandoned,
            ),
            HostedAgent(
                tasks_definition(settings.fleet_tasks),
                TaskRuntime(coder, agents, ending, announcing.task),
                abandon=stopping.ended,
            ),
        ]
        await table.synced.wait()  # a task is looked for in the entries of agents
        liveness = await enter(watch_workers(bus))
        process.vital(liveness.keeping)
        workers = WatchWorkers(bus, liveness)
        table.on_change(workers.changed)
        await enter(watch_claims(bus, workers.on_claim, team=FLEET_TEAM))
        await executor.host(FLEET_TEAM, hosted)
        reconciling = Reconciling(fleet, reconcile, workers, executor.holding)
        bus.spawn(poll_now(workers.read))
        stack.callback(bus.on_reconnect(partial(workers.read, everything=True)))
        await enter(process.running(reconciling.keep(), "reconciling"))
        troubles = Troubles(agents=partial(_troubles, snapshots))
        await enter(offer_agents(executor, process, publish=publications(bus, hosted), troubles=troubles))
        yield FleetService(executor, fleet, reconciling, workers)


@dataclass(frozen=True)
class Reconciling:
    """Makes rounds. While Coder is away it only looks whether it is back.

    While no turns are taken, as after a restore, nothing is repaired: entries may say what was long ago.
    """

    fleet: Fleet
    reconcile: Reconcile
    workers: WatchWorkers
    holding: Holding

    async def keep(self) -> None:
        """Make a round now and every `_RECONCILE_EVERY` seconds, for ever."""
        while True:
            await poll_now(self.round)
            await asyncio.sleep(_LOOK_AGAIN if self.fleet.snapshots.trouble is not None else _RECONCILE_EVERY)

    async def round(self) -> None:
        """Make one round.

        Raises:
            Unavailable: the broker does not answer.
        """
        await self.workers.read()
        if self.holding.why is not None:
            return
        try:
            existing = await self.fleet.snapshots.get()
            seen = await self.fleet.all()
        except Unavailable:  # the presence says so
            return
        busy = [each.workspace for each in seen if each.status == "busy"]
        await self.reconcile.round({workspace.id for workspace in existing}, busy)


def _announce(bus: Bus, uri: str) -> None:
    bus.spawn(announce_change(bus, FLEET_TEAM, FLEET_AGENT, uri))


async def _look(fleet: Fleet, announcing: Announcing) -> None:
    """Look at all agents as often as their states can be new, for ever."""
    while True:
        with suppress(Unavailable):
            announcing.seen(await fleet.all())
        await asyncio.sleep(SECONDS)


def _troubles(snapshots: Snapshots) -> dict[str, Trouble]:
    trouble = snapshots.trouble
    agents = (FLEET_AGENT, FLEET_TASKS_AGENT)
    return {f"{FLEET_TEAM}.{agent}": trouble for agent in agents} if trouble is not None else {}


SERVICE = Service("fleet", FleetSettings, build)
