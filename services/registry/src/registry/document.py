"""One agent as the registry lists it: a `server.json` document with its metadata.

The schema of 2025-12-11 takes precedence over the interface contract's example: icon sizes are a list, and a
description of 1 to 100 characters and a version are always present. Values that violate the schema are shortened or
left out, never refused.
"""

import re
from datetime import UTC, datetime
from urllib.parse import urljoin

from pallas_contracts.agents import AgentDefinition, Icon, JsonObject
from pallas_contracts.health import AgentHealth

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
OFFICIAL = "io.modelcontextprotocol.registry/official"
HEALTH = "io.pallas/health"
FOREIGN = "io.pallas/foreign"
"""Marks an entry that this registry has from the registry of another cell. It never gets this platform's bearer."""

CHAT = "io.pallas/chat"
"""For people who talk to the agent: whether to begin with it, and messages to try."""

STALE = {"status": "degraded", "message": "check is stale"}
"""What is said of an agent that was well when it was last heard of."""

_NAME = re.compile(r"(?=.{3,200}$)[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_SIZE = re.compile(r"\d+x\d+|any")
_MIME_TYPES = frozenset({"image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"})
_LONGEST_TEXT = 100
_LONGEST_ADDRESS = 255
_LONGEST_VERSION = 255


def server_name(definition: AgentDefinition) -> str:
    """The name callers know the agent by; what follows the slash is unique inside its namespace."""
    return f"{definition.namespace}/pallas-{definition.agent}"


def is_server_name(name: str) -> bool:
    """Whether `name` is valid in the schema."""
    return _NAME.fullmatch(name) is not None


def server_version(definition: AgentDefinition) -> str:
    """The agent's version as listed."""
    return definition.version.strip()[:_LONGEST_VERSION] or "0.0.0"


def describe(
    definition: AgentDefinition, health: AgentHealth | None, *, url: str, public_url: str, stale: bool
) -> JsonObject:
    """Return the agent's entry, `{"server": …, "_meta": …}`.

    `url` is its MCP endpoint; relative icon URLs are resolved against `public_url`; `stale`: `health` is out of date.
    """
    updated = timestamp(definition.updated_at)
    meta: JsonObject = {
        OFFICIAL: {
            "status": "active",
            "statusChangedAt": updated,
            "publishedAt": updated,
            "updatedAt": updated,
            "isLatest": True,
        }
    }
    if health is not None:
        meta[HEALTH] = _health(health, stale)
    if definition.entry or definition.starters:
        meta[CHAT] = {"entry": definition.entry, "starters": list(definition.starters)}
    return {"server": _server(definition, url, public_url), "_meta": meta}


def timestamp(at: datetime) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _server(definition: AgentDefinition, url: str, public_url: str) -> JsonObject:
    title = _one_line(definition.title) or definition.agent
    icons = [icon for icon in (_icon(icon, public_url) for icon in definition.icons) if icon is not None]
    server: JsonObject = {
        "$schema": SCHEMA,
        "name": server_name(definition),
        "title": title,
        "description": _one_line(definition.description) or title,
        "version": server_version(definition),
    }
    if icons:
        server["icons"] = icons
    server["remotes"] = [{"type": "streamable-http", "url": url}]
    if definition.capabilities is not None:
        server["capabilities"] = definition.capabilities.model_dump(mode="json", exclude_none=True)
    return server


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 1].rstrip() + "…"


def _icon(icon: Icon, public_url: str) -> JsonObject | None:
    src = urljoin(f"{public_url}/", icon.src)
    if not icon.src or len(src) > _LONGEST_ADDRESS:
        return None
    sizes = [size for size in icon.sizes if _SIZE.fullmatch(size)]
    shown: JsonObject = {"src": src, "sizes": sizes or ["any"]}
    if icon.mime_type in _MIME_TYPES:
        shown["mimeType"] = icon.mime_type
    return shown


def _health(health: AgentHealth, stale: bool) -> JsonObject:
    said = {"status": health.status, **({"message": health.message} if health.message else {})}
    if stale:
        said = STALE if health.status == "ok" else {**said, "message": STALE["message"]}
    return {**said, "timestamp": timestamp(health.at), "workers": health.workers}
