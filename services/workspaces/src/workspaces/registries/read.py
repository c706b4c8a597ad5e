"""Reads the document of a registry (interface contract, section 1).

An entry that cannot be used is listed with the reason, and the others are taken. Unknown fields are ignored, and an
optional field of the wrong type counts as absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import httpx2

from pallas_contracts.errors import Rejected
from workspaces.answers import Capabilities, DiscoveredAgent, UnusableEntry
from workspaces.registries.policy import Policy
from workspaces.registries.urls import FIELD, LONGEST_URL
from workspaces.registries.words import line

FOREIGN = "io.pallas/foreign"
"""In `_meta`: the registry of a platform has this entry from another registry."""
CHAT = "io.pallas/chat"
"""In `_meta`: whether people begin with this agent (`entry`), and messages to try (`starters`)."""

MOST_ENTRIES = 1000
LONGEST_ID, LONGEST_TITLE, LONGEST_DESCRIPTION, LONGEST_SERVER_NAME = 128, 200, 1000, 300
LONGEST_STARTER, MOST_STARTERS = 200, 3
LONGEST_ICON = 96 * 1024
"""An icon may be a `data:` address."""
_LARGEST_INT = 2**31 - 1


class _Unusable(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Listing:
    """What a registry offers. `icon` of an agent is its `src` as it is. `namespace` is that of all agents."""

    agents: tuple[DiscoveredAgent, ...]
    unusable: tuple[UnusableEntry, ...]
    namespace: str | None


def read_document(document: Any, policy: Policy) -> Listing:
    """The agents in a document. Those that the registry has from others come last, so they take no id of its own ones.

    Raises:
        Rejected: it has no list `servers` (`bad_registry`).
    """
    entries = _object(document).get("servers")
    if not _is_list(entries):
        raise Rejected(f"{FIELD}: the document has no list `servers`", code="bad_registry", field=FIELD)
    agents, unusable = dict[str, DiscoveredAgent](), list[UnusableEntry]()
    for number, entry in sorted(enumerate(entries[:MOST_ENTRIES], 1), key=lambda one: _is_foreign(one[1])):
        server = _object(_object(entry).get("server"))
        try:
            agent = _agent(server, policy, foreign=_is_foreign(entry))
            agent = agent.model_copy(update=_for_people(_object(_object(_object(entry).get("_meta")).get(CHAT))))
            if agent.server_id in agents:
                raise _Unusable(f"the id {agent.server_id!r} is listed twice")
            agents[agent.server_id] = agent
        except _Unusable as reason:
            name = line(server.get("name"), LONGEST_SERVER_NAME) or f"entry {number}"
            unusable.append(UnusableEntry(name=name, reason=str(reason)))
    if len(entries) > MOST_ENTRIES:
        left = len(entries) - MOST_ENTRIES
        reason = f"only the first {MOST_ENTRIES} entries are read"
        unusable.append(UnusableEntry(name=f"{left} further entries", reason=reason))
    namespaces = {agent.name.rpartition("/")[0] for agent in agents.values()}
    return Listing(
        tuple(agents.values()), tuple(unusable), (namespaces.pop() or None) if len(namespaces) == 1 else None
    )


def _is_foreign(entry: Any) -> bool:
    return FOREIGN in _object(_object(entry).get("_meta"))


def _agent(server: Mapping[str, Any], policy: Policy, *, foreign: bool) -> DiscoveredAgent:
    if not server:
        raise _Unusable("there is no object `server`")
    name = line(server.get("name"), LONGEST_SERVER_NAME)
    server_id = name.rpartition("/")[2]
    if not name or name != server.get("name"):
        raise _Unusable(f"`name` must be one line of at most {LONGEST_SERVER_NAME} characters")
    if not server_id or len(server_id) > LONGEST_ID or " " in server_id:
        raise _Unusable(f"`name` must end in an id of at most {LONGEST_ID} characters without spaces")
    return DiscoveredAgent(
        server_id=server_id,
        name=name,
        title=line(server.get("title"), LONGEST_TITLE) or line(name, LONGEST_TITLE),
        description=line(server.get("description"), LONGEST_DESCRIPTION) or None,
        version=line(server.get("version"), 100) or None,
        icon=_icon(server.get("icons")),
        url=_url(server.get("remotes"), policy),
        capabilities=_capabilities(_object(server.get("capabilities"))),
        foreign=foreign,
    )


def _for_people(chat: Mapping[str, Any]) -> dict[str, Any]:
    starters = [line(one, LONGEST_STARTER) for one in _list(chat.get("starters"))[:MOST_STARTERS]]
    return {"entry": chat.get("entry") is True, "starters": tuple(one for one in starters if one)}


def _url(remotes: Any, policy: Policy) -> str:
    found = [one for one in map(_object, _list(remotes)) if one.get("type") == "streamable-http"]
    if not found:
        raise _Unusable("it has no remote of the type streamable-http")
    given = found[0].get("url")
    text = given if isinstance(given, str) and len(given) <= LONGEST_URL and given.isprintable() else ""
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or set(text) & set("{} "):
        raise _Unusable("the `url` of its remote is not an http(s) address")
    if not policy.allows_host(url.host):
        raise _Unusable("its address is in a network that is not allowed")
    return text


def _icon(icons: Any) -> str | None:
    src = next((_object(one).get("src") for one in _list(icons)[:1]), None)
    usable = isinstance(src, str) and 0 < len(src) <= LONGEST_ICON and src.isprintable()
    return src if usable else None


def _capabilities(given: Mapping[str, Any]) -> Capabilities:
    return Capabilities(
        model=line(given.get("model"), 200) or None,
        vision=given.get("vision") is True,
        context_window=_count(given.get("context_window")),
        max_output_tokens=_count(given.get("max_output_tokens")),
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST_INT else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if _is_object(value) else {}


def _list(value: Any) -> list[Any]:
    return value if _is_list(value) else []


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
