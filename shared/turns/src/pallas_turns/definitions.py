"""Publish the definitions of a team folder: add new and changed agents, retire those that are gone.

An older version never replaces a newer one, so a worker with an old folder cannot undo a roll-out.
"""

import hashlib
import logging
import re
from collections.abc import Collection, Iterable

from pallas_bus.connection import Bus
from pallas_bus.kv import delete, get_entries, get_entry, put
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import AGENTS
from pallas_contracts.errors import Conflict
from pallas_contracts.message import utc_now

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
    elsewhere: Collection[str] = (),
) -> None:
    """Publish all agents of a team that are of `kinds`, but for those that are `elsewhere`.

    Those of other kinds are left alone: another worker has them.

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
        if known is None or known.agent in wanted or known.agent in elsewhere or known.kind not in kinds:
            continue
        if version_key(known.version) > version_key(version):
            log.warning("agent kept: it belongs to a newer version", extra={"team": team, "agent": known.agent})
            continue
        await delete(bus, AGENTS, team=team, agent=known.agent)
        log.info("agent retired", extra={"team": team, "agent": known.agent})


async def publish_lost(bus: Bus, team: str, definitions: Iterable[AgentDefinition]) -> None:
    """Publish those of a team that the catalogue has lost: it has no entry, and no mark of a removal.

    Raises:
        Unavailable: the catalogue cannot be written now.
    """
    published = await _published(bus, team)
    for definition in definitions:
        if definition.agent not in published:
            await _publish(bus, definition, _UNKNOWN)  # or another process does at this moment


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
