"""The monitor: a round of probes every interval, a new judgement after each change, and checks on demand.

It mirrors the tables of agents and workers. The health of an agent is published only after every dependency of the
agent has been probed once, so a restart of the monitor does not change what callers see.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from health_monitor.broker.publications import Publications
from health_monitor.broker.queues import TurnQueue
from health_monitor.judging.fold import Evidence, fold, running_on, stdio_error
from health_monitor.judging.needs import Needs, model_key, needs_of
from health_monitor.metrics import Metrics
from health_monitor.probes.shared_probes import SharedProbes
from health_monitor.probes.targets import McpTarget, ModelTarget, Target
from health_monitor.team_folders import TeamFolders
from pallas_contracts.agents import AgentDefinition, WorkerPresence
from pallas_contracts.errors import NotFound, Rejected, Unavailable
from pallas_contracts.health import AgentHealth, HealthAsked, ProbeResult
from pallas_contracts.message import utc_now
from pallas_schemas.schema import check_answers, check_definition

ON_DEMAND = 0.7
"""Seconds that a check on demand waits for probes; the caller's timeout is 0.9 s."""


@dataclass
class Monitor:
    """Judges agents. `interval` and `slow` are seconds; `changed` is set when judgements may have to be revised."""

    addresses: TeamFolders
    probes: SharedProbes
    queue: TurnQueue
    publications: Publications
    metrics: Metrics
    interval: float
    slow: float
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _agents: dict[str, AgentDefinition] = field(default_factory=dict[str, AgentDefinition])
    _workers: dict[str, WorkerPresence] = field(default_factory=dict[str, WorkerPresence])
    _hosts: dict[str, list[WorkerPresence]] = field(default_factory=dict[str, list[WorkerPresence]])
    _served: set[str] = field(default_factory=set[str])
    _idle_since: dict[str, float] = field(default_factory=dict[str, float])
    _unchecked: set[str] = field(default_factory=set[str])
    _unchecked_answers: dict[str, str | None] = field(default_factory=dict[str, str | None])
    _judged: set[str] = field(default_factory=set[str])
    _publishing: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def agent_changed(self, key: str, definition: AgentDefinition | None) -> None:
        """An agent came, changed or went."""
        if definition is None:
            self._agents.pop(key, None)
            self._idle_since.pop(key, None)
        else:
            self._agents[key] = definition
            self._unchecked.add(key)
        self.changed.set()

    def worker_changed(self, key: str, presence: WorkerPresence | None) -> None:
        """A worker came, published its presence again, or went."""
        known = self._workers.pop(key, None)
        if presence is not None:
            self._workers[key] = presence
        if known is None or presence is None or _hosting(known) != _hosting(presence):
            self._note_workers()

    async def run_round(self) -> None:
        """Probe everything that any agent depends on, and publish all results and judgements."""
        await self.addresses.reload()
        needs = await self._checked_needs()
        await self.probes.run(self._targets(needs.values()))
        for result in self._stdio_results(needs.values()):
            await self.probes.record(result)
        await self._judge_all(needs)
        await self._forget(needs)

    async def catch_up(self) -> None:
        """Judge again after a change; only what has never been probed is probed."""
        needs = await self._checked_needs()
        if any(self._unknown(need) for need in needs.values()):
            await self.addresses.reload()
        await self.probes.run(
            target for target in self._targets(needs.values()) if target.key not in self.probes.results
        )
        await self._judge_all(needs)

    async def check_health(self, asked: HealthAsked) -> AgentHealth:
        """Probe an agent's servers now and judge it.

        Where a probe takes too long, the last result counts; `at` tells its age. A provider is probed at most once per
        interval.

        Raises:
            NotFound: there is no such agent.
        """
        definition = self._agents.get(f"{asked.team}.{asked.agent}")
        if definition is None:
            raise NotFound(f"there is no agent {asked.agent!r} in team {asked.team!r}", code="no_such_agent")
        needs = needs_of(definition, self._agents)
        await self.probes.run((it for it in self._targets([needs]) if self._is_due(it)), within=ON_DEMAND)
        health = await self._judge(definition, needs)
        task = asyncio.create_task(self.publications.health(health))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)
        return health

    async def close(self) -> None:
        """End the probes and finish publishing."""
        await self.probes.close()
        await asyncio.gather(*self._publishing, return_exceptions=True)

    def _note_workers(self) -> None:
        """Record which workers know which agents, and since when an agent has none: its turns wait from then on."""
        hosts: dict[str, list[WorkerPresence]] = {}
        for worker in self._workers.values():
            for key in {*worker.agents, *worker.failed, *worker.troubles}:
                hosts.setdefault(key, []).append(worker)
        served = {key for key, workers in hosts.items() if running_on(key, workers)}
        self._idle_since.update(dict.fromkeys(self._served - served, utc_now().timestamp()))
        for key in served:
            self._idle_since.pop(key, None)
        self._hosts, self._served = hosts, served
        self.changed.set()

    async def _checked_needs(self) -> dict[str, Needs]:
        """What agents depend on, once new definitions have been checked as a gateway checks them."""
        later = set[str]()
        while self._unchecked:
            key = self._unchecked.pop()
            if (definition := self._agents.get(key)) is None:
                continue
            try:
                await check_definition(definition)
                self._unchecked_answers[key] = await _why_unchecked(definition)
            except Rejected as error:
                if self._agents.get(key) is definition:
                    self._agents[key] = definition.model_copy(update={"unusable": error.message})
            except Unavailable:
                later.add(key)
        self._unchecked |= later
        return {key: needs_of(definition, self._agents) for key, definition in self._agents.items()}

    def _targets(self, needs: Iterable[Needs]) -> list[Target]:
        """What can be probed, each once."""
        targets: dict[str, Target] = {}
        for need in needs:
            for server in need.servers:
                if server.transport == "http" and (address := self.addresses.server(server.key)) is not None:
                    targets[server.key] = McpTarget(server.key, address)
            for model in need.models:
                if (provider := self.addresses.provider(model.key)) is not None:
                    targets[model_key(model)] = ModelTarget(model_key(model), provider, model.model)
        return list(targets.values())

    def _unknown(self, needs: Needs) -> frozenset[str]:
        servers = {it.key for it in needs.servers if it.transport == "http" and self.addresses.server(it.key) is None}
        return frozenset(servers | {it.key for it in needs.models if self.addresses.provider(it.key) is None})

    def _stdio_results(self, needs: Iterable[Needs]) -> list[ProbeResult]:
        """What the workers report of their own child processes."""
        now, workers = utc_now(), list(self._workers.values())
        reported = {key for worker in workers for key in worker.stdio}
        servers = {it.key: it.name for need in needs for it in need.servers if it.key in reported}
        return [
            ProbeResult(key=key, name=name, kind="stdio", error=stdio_error(key, workers), at=now)
            for key, name in servers.items()
        ]

    def _is_due(self, target: Target) -> bool:
        last = self.probes.results.get(target.key)
        return target.kind == "mcp" or last is None or (utc_now() - last.at).total_seconds() >= self.interval

    async def _judge_all(self, needs: dict[str, Needs]) -> None:
        known = ((self._agents.get(key), need) for key, need in needs.items())
        await asyncio.gather(*(self._publish(agent, need) for agent, need in known if agent is not None))

    async def _publish(self, definition: AgentDefinition, needs: Needs) -> None:
        await self.publications.health(await self._judge(definition, needs))

    async def _judge(self, definition: AgentDefinition, needs: Needs) -> AgentHealth:
        key = f"{definition.team}.{definition.agent}"
        evidence = Evidence(
            probes=self.probes.results,
            workers=self._hosts.get(key, []),
            unknown=self._unknown(needs),
            waited=None if key in self._served else await self._waited(definition),
        )
        verdict = fold(definition, needs, evidence, slow=self.slow)
        if verdict.status == "ok" and (reason := self._unchecked_answers.get(key)):
            verdict = replace(verdict, status="degraded", message=reason)
        used = (self.probes.results.get(target.key) for target in self._targets([needs]))
        health = AgentHealth(
            team=definition.team,
            agent=definition.agent,
            status=verdict.status,
            message=verdict.message,
            workers=verdict.workers,
            interval=self.interval,
            at=min((result.at for result in used if result is not None), default=utc_now()),
        )
        self.metrics.judged(health)
        self._judged.add(key)
        return health

    async def _waited(self, definition: AgentDefinition) -> float | None:
        """For how many seconds turns have waited with no worker; None when there are none."""
        since = await self.queue.waiting_since(definition.team, definition.agent)
        if since is None:
            return None
        return utc_now().timestamp() - max(since, self._idle_since.get(f"{definition.team}.{definition.agent}", 0.0))

    async def _forget(self, needs: dict[str, Needs]) -> None:
        """Drop what belongs to agents that are gone."""
        agents = set(self._agents)
        keys = {it.key for need in needs.values() for it in need.servers}
        keys |= {model_key(it) for need in needs.values() for it in need.models}
        for gone in self._judged - agents:
            self._unchecked_answers.pop(gone, None)
            team, _, agent = gone.partition(".")
            self.metrics.forget_agent(team, agent)
        self._judged &= agents
        self.probes.keep(keys)
        await self.publications.keep(agents, keys)


async def _why_unchecked(definition: AgentDefinition) -> str | None:
    """Why answers of an agent are not checked against the schemas that it promises; None: they are."""
    try:
        await check_answers(definition)
    except Rejected as error:
        return f"its answers are not checked: {error.message}"
    return None


def _hosting(presence: WorkerPresence) -> tuple[object, ...]:
    return presence.agents, presence.failed, presence.troubles, presence.stdio, presence.held
