"""A service that executes turns: its connection, what it declares, the definitions that it publishes, its presence.

Of a team folder, new and changed agents are published and those that are gone are retired. An older version never
replaces a newer one, so a worker with an old folder cannot undo a roll-out.
"""

import hashlib
import logging
import re
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from pallas_bus.access import Access
from pallas_bus.connection import Bus, connect_when_possible
from pallas_bus.errors import Poll, poll_now, polling
from pallas_bus.kv import delete, get_entries, get_entry, put
from pallas_bus.streams import declare
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import AGENTS, DEAD_LETTERS, HOLDS, TURN_LOG, TURN_QUEUE, WORKERS
from pallas_contracts.contract import Bucket, Stream
from pallas_contracts.errors import Conflict
from pallas_contracts.message import utc_now
from pallas_runtime.process import Process
from pallas_runtime.settings import Settings
from pallas_turns.executor import Executor, Troubles
from pallas_turns.runtime import HostedAgent

_PUBLISH_EVERY = 60.0

_USED = (AGENTS, WORKERS, HOLDS, TURN_QUEUE, TURN_LOG, DEAD_LETTERS)


@asynccontextmanager
async def connect_service(
    settings: Settings, process: Process, service: str, *others: Bucket[Any] | Stream
) -> AsyncGenerator[Bus]:
    """A connection as the user `service`. All that it uses is declared: `others`, and what every executor uses."""
    connecting = connect_when_possible(Access.of(settings), service, instance=process.instance)
    async with connecting as bus, process.uses(bus):
        await declare(bus, *others, *_USED, replicas=settings.stream_replicas)
        yield bus


@asynccontextmanager
async def offer_agents(
    executor: Executor, process: Process, *, publish: Sequence[Poll], troubles: Troubles
) -> AsyncGenerator[None]:
    """Publish definitions now and once a minute, and this executor's presence, inside the block."""
    bus = executor.bus
    async with AsyncExitStack() as stack:
        for poll in publish:
            bus.spawn(poll_now(poll))
            await stack.enter_async_context(polling(bus, poll, _PUBLISH_EVERY))
        await stack.enter_async_context(process.running(executor.send_presence(troubles), "presence"))
        yield


def publications(bus: Bus, hosted: Sequence[HostedAgent]) -> list[Poll]:
    """Publishes the definition of each of these agents."""
    return [partial(publish_definition, bus, each.definition) for each in hosted]


log = logging.getLogger(__name__)

_NUMBER = re.compile(r"\d+")

type _Published = tuple[AgentDefinition | None, int]
"""The published definition of an agent, None when there is none, and the position of its entry."""

_UNKNOWN: _Published = (None, 0)


def version_key(version: str) -> tuple[tuple[int, ...], bool]:
    """The sort key of a version: the numbers of its release; a pre-release sorts before its release."""
    release, _, rest = version.partition("+")[0].partition("-")
    return tuple(int(number) for number in _NUMBER.findall(release)), not rest


def revision_of(definition: AgentDefinition) -> str:
    """A digest of a definition without its revision and its time."""
    body = definition.model_copy(update={"revision": ""}).model_dump_json(exclude={"updated_at"})
    return hashlib.sha256(body.encode()).hexdigest()[:16]


async def publish_definitions(
    bus: Bus,
    team: str,
    version: str,
    definitions: Iterable[AgentDefinition],
    *,
    unstarted: Iterable[AgentDefinition] = (),
    kinds: Collection[str],
) -> None:
    """Publish all agents of a team that are of `kinds`. Those of other kinds are left alone: another worker has them.

    Agents that failed to start stay published, so that their health can be seen: their published definition is kept; if
    there is none, `unstarted` is published.

    Raises:
        Unavailable: the catalogue cannot be written now.
    """
    published = await _published(bus, team)
    wanted = {definition.agent: definition for definition in definitions}
    for definition in unstarted:
        wanted[definition.agent] = published.get(definition.agent, _UNKNOWN)[0] or definition
    for agent, definition in wanted.items():
        await publish_definition(bus, definition, published.get(agent, _UNKNOWN))
    for known, _ in published.values():
        if known is None or known.agent in wanted or known.kind not in kinds:
            continue
        if version_key(known.version) > version_key(version):
            log.warning("agent kept: it belongs to a newer version", extra={"team": team, "agent": known.agent})
            continue
        await delete(bus, AGENTS, team=team, agent=known.agent)
        log.info("agent retired", extra={"team": team, "agent": known.agent})


async def publish_definition(bus: Bus, definition: AgentDefinition, published: _Published = _UNKNOWN) -> None:
    """Publish one agent, unless the published definition is the same or newer.

    Raises:
        Unavailable: the catalogue cannot be written now.
    """
    while not await _publish(bus, definition, published):
        # Another process has just published this agent: compare with its definition.
        published = await get_entry(bus, AGENTS, team=definition.team, agent=definition.agent)


async def _published(bus: Bus, team: str) -> dict[str, _Published]:
    """The published definitions of a team, by agent."""
    entries = await get_entries(bus, AGENTS, team=team)
    return {key.partition(".")[2]: entry for key, entry in entries.items()}


async def _publish(bus: Bus, wanted: AgentDefinition, published: _Published) -> bool:
    """Publish one agent unless the published definition is the same or newer. False: it has changed meanwhile."""
    revision = revision_of(wanted)
    known, position = published
    if known is not None and known.revision == revision:
        return True
    facts = {"team": wanted.team, "agent": wanted.agent, "version": wanted.version}
    if known is not None and version_key(known.version) > version_key(wanted.version):
        log.warning("agent not published: a newer version is", extra={**facts, "published": known.version})
        return True
    fresh = wanted.model_copy(update={"revision": revision, "updated_at": utc_now()})
    try:
        await put(bus, AGENTS, fresh, after=position, team=wanted.team, agent=wanted.agent)
    except Conflict:
        return False
    log.info("agent published", extra=facts)
    return True
