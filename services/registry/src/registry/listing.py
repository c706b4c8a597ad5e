"""Everything that the registry can answer at one moment, compiled from the tables. Pure.

A server name is listed once. When two teams use the same one, the agent that changed last keeps it; the other is listed
at its own team's address only. Of cells, this one comes first, then the others in the order in which they are named.
Agents of other cells take neither the name nor the room of one of this cell.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from pallas_contracts.agents import AgentDefinition, GatewayPresence, JsonObject
from pallas_contracts.health import AgentHealth
from registry.document import HEALTH, describe, is_server_name, server_name, server_version

log = logging.getLogger(__name__)

MOST_FOREIGN = 500
LARGEST_FOREIGN = 1024 * 1024
"""Agents of all other cells together, and bytes of their entries."""

LARGEST_BODY = 2 * 1024 * 1024 - 64 * 1024
"""Bytes that the console reads of a document, with some to spare. Foreign entries have what own ones leave of it."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An agent's entry, and the fields that queries select by.

    `team` is empty for an agent of another cell, which has the address of its registry in `cell`, and the `size` of its
    document in bytes.
    """

    team: str
    name: str
    version: str
    updated_at: datetime
    document: JsonObject
    cell: str = ""
    size: int = 0

    @property
    def server_id(self) -> str:
        """What the console knows it by."""
        return self.name.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Listing:
    """`servers` are sorted by name, each once. `body`, `own` and `teams` are the well-known documents as they are sent.

    `own` has the agents of this cell, which come first in `body`. `etag` is weak: it stays the same while nothing
    changes but the time of the last health check. `taken` are names of other cells whose last part an agent of this
    cell has, `left_out` how many agents of each cell there was no room for.
    """

    servers: tuple[Listed, ...] = ()
    body: bytes = b'{"servers":[]}'
    own: bytes = b'{"servers":[]}'
    teams: dict[str, bytes] = field(default_factory=dict[str, bytes])
    etag: str = 'W/"empty"'
    shadowed: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])


def compile_listing(
    agents: Mapping[str, AgentDefinition],
    health: Mapping[str, AgentHealth],
    gateways: Mapping[str, GatewayPresence],
    *,
    public_url: str,
    stale: frozenset[str] = frozenset(),
    others: Iterable[Listed] = (),
) -> Listing:
    """Make the listing of all agents; keys of `agents`, `health` and `stale` are `{team}.{agent}`.

    `others` are the agents of other cells.
    """
    bound = bound_ports(gateways)
    listed: dict[str, Listed] = {}
    for key in sorted(agents):
        definition = agents[key]
        name = server_name(definition)
        if not is_server_name(name):
            log.warning("invalid server name; agent not listed", extra={"agent": key, "server": name})
            continue
        url = agent_url(definition, bound, public_url)
        document = describe(definition, health.get(key), url=url, public_url=public_url, stale=key in stale)
        listed[key] = Listed(definition.team, name, server_version(definition), definition.updated_at, document)
    winners = _unique_names(listed)
    own = _by_name(listed[key] for key in winners.values())
    own_body, ids = _body(own), {entry.server_id for entry in own}
    known = dict[str, Listed]()
    for entry in others:
        known.setdefault(entry.name, entry)
    found = [entry for entry in known.values() if entry.server_id not in ids]
    fitting = _fitting(found, min(LARGEST_FOREIGN, LARGEST_BODY - len(own_body)))
    foreign = {entry.name: entry for entry in fitting}
    return Listing(
        servers=tuple(_by_name((*own, *fitting))),
        body=_body((*own, *_by_name(fitting))),
        own=own_body,
        teams=_by_team(listed),
        etag=_etag(listed | foreign),
        shadowed=tuple(key for key, entry in listed.items() if winners[entry.name] != key),
        taken=tuple(name for name, entry in known.items() if entry.server_id in ids),
        left_out=Counter(entry.cell for entry in found if entry.name not in foreign),
    )


def _fitting(entries: Iterable[Listed], room: int) -> list[Listed]:
    """The first entries for which there is room."""
    fitting = list[Listed]()
    for entry in entries:
        if entry.size <= room and len(fitting) < MOST_FOREIGN:
            fitting.append(entry)
            room -= entry.size
    return fitting


def _unique_names(listed: Mapping[str, Listed]) -> dict[str, str]:
    """Map each server name to the key of the agent that keeps it."""
    winners: dict[str, str] = {}
    for key, entry in listed.items():
        known = winners.get(entry.name)
        if known is None or entry.updated_at > listed[known].updated_at:
            winners[entry.name] = key
    return winners


def _by_team(listed: Mapping[str, Listed]) -> dict[str, bytes]:
    teams: dict[str, list[Listed]] = {}
    for entry in listed.values():
        teams.setdefault(entry.team, []).append(entry)
    return {team: _body(_by_name(entries)) for team, entries in teams.items()}


def _by_name(entries: Iterable[Listed]) -> list[Listed]:
    return sorted(entries, key=lambda entry: entry.name)


def _body(entries: Iterable[Listed]) -> bytes:
    return dump({"servers": [entry.document for entry in entries]})


def _etag(listed: Mapping[str, Listed]) -> str:
    digest = hashlib.sha256()
    for key, entry in listed.items():
        digest.update(f"{key}\n".encode())
        digest.update(dump(_without_check_time(entry.document)))
    return f'W/"{digest.hexdigest()[:32]}"'


def _without_check_time(document: JsonObject) -> JsonObject:
    meta = dict(document["_meta"])
    if HEALTH in meta:
        meta[HEALTH] = {name: value for name, value in meta[HEALTH].items() if name != "timestamp"}
    return {**document, "_meta": meta}


def dump(value: JsonObject) -> bytes:
    """JSON as it is sent: UTF-8, no spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


_EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - recognised, not bound


def bound_ports(gateways: Mapping[str, GatewayPresence]) -> dict[str, tuple[str, int]]:
    """Map `{team}.{agent}` to the host and port of the first gateway, by name, that has bound its dedicated port."""
    bound: dict[str, tuple[str, int]] = {}
    for name in sorted(gateways):
        for agent, port in gateways[name].ports.items():
            bound.setdefault(agent, (gateways[name].host, port))
    return bound


def agent_url(definition: AgentDefinition, bound: Mapping[str, tuple[str, int]], public_url: str) -> str:
    """The agent's MCP endpoint.

    A gateway that listens on all addresses is reached at the public host name.
    """
    found = bound.get(f"{definition.team}.{definition.agent}")
    if found is None:
        return f"{public_url}/teams/{definition.team}/mcp/{definition.agent}"
    host, port = found
    if host in _EVERY_ADDRESS:
        host = urlsplit(public_url).hostname or host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"
