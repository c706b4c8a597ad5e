"""Stores registrations, and publishes their definitions.

The definition of a registered agent follows from its entry in `data_agents` alone, so each replica can publish a
missing one. When two write at the same time, the definition of the entry that is stored last is the one that stays.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from data_pool.registering.registration import Registration, check_schemas, read_registration
from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.kv import Table
from pallas_contracts.agents import LARGEST_DEFINITION, AgentDefinition
from pallas_contracts.bounds import JsonObject
from pallas_contracts.catalog import AGENTS, DATA_AGENTS, DATA_TEAM, HEARTBEATS
from pallas_contracts.data_agents import DataAgent
from pallas_contracts.errors import Conflict, Denied, NotFound, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal
from pallas_runtime.front import check_callers, is_among
from pallas_turns.definitions import publish_lost, revision_of
from pallas_turns.queue import delete_consumer

log = logging.getLogger(__name__)

_JUST_NOW = 10.0
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Share:
    """A number of agents, and the MiB of their registrations."""

    agents: int
    mib: float


@dataclass(slots=True)
class Quota:
    """What `each` registrar may register, and what all may `together`."""

    each: Share
    together: Share
    _sizes: dict[str, tuple[DataAgent, int]] = field(default_factory=dict[str, tuple[DataAgent, int]])
    _stored: dict[str, tuple[float, DataAgent]] = field(default_factory=dict[str, tuple[float, DataAgent]])

    def check(self, wanted: DataAgent, known: Iterable[DataAgent]) -> None:
        """Check that a registration may be stored beside those that are `known`.

        Raises:
            Denied: there are too many, or they are too large (`too_many_agents`).
        """
        now = time.monotonic()
        self._stored = {name: it for name, it in self._stored.items() if now - it[0] < _JUST_NOW}
        entries = {it.agent: it for it in known} | {name: it for name, (_, it) in self._stored.items()}
        entries[wanted.agent] = wanted
        self._sizes = {name: (it, self._size(it)) for name, it in entries.items()}
        owner = wanted.owner.owner
        mine = [size for it, size in self._sizes.values() if it.owner.owner == owner]
        _check(self.each, mine, "You have")
        _check(self.together, [size for _, size in self._sizes.values()], "All registrars together have")

    def stored(self, entry: DataAgent) -> None:
        """The registration has been stored."""
        self._stored[entry.agent] = (time.monotonic(), entry)

    def removed(self, agent: str) -> None:
        """The registration has been removed."""
        self._stored.pop(agent, None)

    def _size(self, entry: DataAgent) -> int:
        known = self._sizes.get(entry.agent)
        return known[1] if known is not None and known[0] is entry else len(entry.model_dump_json())


def _check(share: Share, sizes: list[int], who: str) -> None:
    if len(sizes) > share.agents:
        raise Denied(f"{who} at most {share.agents} agents. Remove one first.", code="too_many_agents")
    if sum(sizes) > share.mib * _MIB:
        raise Denied(
            f"{who} agents with at most {share.mib:g} MiB of registrations. Remove one first, or register less text.",
            code="too_many_agents",
        )


@dataclass(frozen=True, slots=True)
class Registrars:
    """The callers whom the setting `pool_registrars` names.

    Raises:
        Rejected: a word names no callers (`bad_settings`).
    """

    words: frozenset[str]

    def __post_init__(self) -> None:
        check_callers("pool_registrars", self.words)

    def check(self, caller: Principal) -> None:
        """Check that a caller may register agents.

        Raises:
            Denied: it may not (`not_registrar`).
        """
        if not is_among(caller, self.words):
            raise Denied("This caller may not register agents.", code="not_registrar")


_ENVELOPE = 8192
"""Bytes of an entry besides the definition."""


@dataclass(frozen=True)
class Registrations:
    """The registrations in bucket `data_agents`. `table` and `published` are copies that may be a moment old."""

    bus: Bus
    registrars: Registrars
    quota: Quota
    table: Table[DataAgent]
    published: Table[AgentDefinition]
    _storing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def register(
        self, caller: Principal, params: JsonObject, *, connects: bool, one_at_a_time: bool
    ) -> tuple[DataAgent, tuple[str, ...]]:
        """Store a registration and publish its definition. Returns the entry, and warnings for its sender.

        What is stored already is not written again, so agents that reconnect cost nothing.

        Raises:
            InvalidRegistration: it has faults.
            Denied: the caller may not register agents (`not_registrar`), not this one (`not_owner`), or no more of them
                (`too_many_agents`).
            Unavailable: the broker does not answer.
        """
        self.registrars.check(caller)
        largest = min(LARGEST_DEFINITION, self.bus.max_payload) - _ENVELOPE
        # In a thread: it may be large, and other agents must not notice.
        read = await asyncio.to_thread(
            read_registration, params, utc_now(), one_at_a_time=one_at_a_time, largest=largest
        )
        wanted = _entry(caller, read, connects=connects)
        known = self.table.get(wanted.agent)
        if known is None or not _same(known, wanted):
            await check_schemas(wanted.definition, wanted.owner)
            async with self._storing:
                known = await self._store(caller, wanted)
        return known, read.warnings

    async def _store(self, caller: Principal, wanted: DataAgent) -> DataAgent:
        known, position = self.table.entry(wanted.agent)
        while True:
            _check_owner(known, caller)
            if known is not None and _same(known, wanted):
                return known
            self.quota.check(wanted, self.table.values())
            try:
                await kv.put(self.bus, DATA_AGENTS, wanted, after=position, agent=wanted.agent)
            except Conflict:
                known, position = await kv.get_entry(self.bus, DATA_AGENTS, agent=wanted.agent)
                continue
            self.quota.stored(wanted)
            if not await self._publish(wanted.agent, *self.published.entry(f"{DATA_TEAM}.{wanted.agent}"), wanted):
                await self.publish(wanted.agent)
            log.info(
                "registered", extra={"team": DATA_TEAM, "agent": wanted.agent, "tools": len(wanted.definition.tools)}
            )
            return wanted

    async def owned(self, caller: Principal, agent: str) -> DataAgent:
        """The registration of an agent of the caller's.

        Raises:
            NotFound: there is none (`unknown_agent`).
            Denied: it belongs to another caller (`not_owner`).
            Unavailable: the broker does not answer.
        """
        known = self.table.get(agent) or (await kv.get_entry(self.bus, DATA_AGENTS, agent=agent))[0]
        if known is None:
            raise NotFound(f"No agent {agent!r} is registered.", code="unknown_agent")
        _check_owner(known, caller)
        return known

    async def remove(self, agent: str) -> None:
        """Remove an agent: its registration, definition, queue and heartbeat.

        Raises:
            Unavailable: the broker does not answer; the call may be repeated.
        """
        await kv.delete(self.bus, DATA_AGENTS, agent=agent)
        self.quota.removed(agent)
        await kv.delete(self.bus, AGENTS, team=DATA_TEAM, agent=agent)
        await kv.delete(self.bus, HEARTBEATS, agent=agent)
        # Not cancelled with the connection over which the agent is removed.
        await asyncio.shield(self.bus.spawn(self._remove_queue(agent)))

    async def _remove_queue(self, agent: str) -> None:
        """Remove an agent's queue. If it has registered again meanwhile, its replicas have to make another one."""
        try:
            await delete_consumer(self.bus, DATA_TEAM, agent)
        except Unavailable as error:
            log.debug("the queue of a removed agent was not there", extra={"agent": agent, "reason": error.message})
        entry, position = await kv.get_entry(self.bus, DATA_AGENTS, agent=agent)
        if entry is not None:
            again = entry.model_copy(update={"registered_at": utc_now()})
            with suppress(Conflict):  # a still newer registration: its replicas make the queue
                await kv.put(self.bus, DATA_AGENTS, again, after=position, agent=agent)
            await self.publish(agent)

    async def publish(self, agent: str) -> None:
        """Make the published definition that of the stored registration; none if there is none.

        Raises:
            Unavailable: the broker does not answer; the call may be repeated.
        """
        while True:
            # In this order: whoever stores another registration later publishes later, too.
            published, position = await kv.get_entry(self.bus, AGENTS, team=DATA_TEAM, agent=agent)
            stored, _ = await kv.get_entry(self.bus, DATA_AGENTS, agent=agent)
            if await self._publish(agent, published, position, stored):
                return

    async def _publish(
        self, agent: str, published: AgentDefinition | None, position: int, stored: DataAgent | None
    ) -> bool:
        """Publish or remove the definition. False: what is known of it is out of date."""
        if stored is None:
            if published is not None:
                await kv.delete(self.bus, AGENTS, team=DATA_TEAM, agent=agent)
            return published is None
        revision = revision_of(stored.definition)
        if published is not None and published.revision == revision:
            return True
        fresh = stored.definition.model_copy(update={"revision": revision, "updated_at": utc_now()})
        try:
            await kv.put(self.bus, AGENTS, fresh, after=position, team=DATA_TEAM, agent=agent)
        except Conflict:
            return False
        return True

    async def publish_missing(self) -> None:
        """Publish what a replica that died between two writes has left out, and remove what it has left over.

        Raises:
            Unavailable: the broker does not answer; the call may be repeated.
        """
        await self.table.synced.wait()
        await self.published.synced.wait()
        published = {key.partition(".")[2]: known.revision for key, known in self.published.items()}
        wanted = {agent: revision_of(entry.definition) for agent, entry in self.table.items()}
        for agent in {agent for agent, _ in published.items() ^ wanted.items()}:
            await self.publish(agent)

    async def publish_lost(self) -> None:
        """Publish what the catalogue has lost, which the copy of it does not show.

        Raises:
            Unavailable: the broker does not answer; the call may be repeated.
        """
        await self.table.synced.wait()
        await publish_lost(self.bus, DATA_TEAM, [entry.definition for entry in self.table.values()])


def _entry(caller: Principal, read: Registration, *, connects: bool) -> DataAgent:
    definition: AgentDefinition = read.definition
    return DataAgent(
        agent=definition.agent,
        owner=Principal(type=caller.type, id=caller.id, user=caller.user),
        definition=definition,
        endpoint=read.endpoint,
        connects=connects,
        heartbeat_interval=read.heartbeat_interval,
        registered_at=definition.updated_at,
    )


def _same(known: DataAgent, wanted: DataAgent) -> bool:
    """Whether two registrations differ in nothing but their times."""
    times = {"registered_at": known.registered_at}
    definition = wanted.definition.model_copy(update={"updated_at": known.definition.updated_at})
    return wanted.model_copy(update={**times, "definition": definition}) == known


def _check_owner(known: DataAgent | None, caller: Principal) -> None:
    if known is not None and known.owner.owner != caller.owner:
        raise Denied(f"The agent {known.agent!r} belongs to another caller.", code="not_owner")
