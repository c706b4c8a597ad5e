"""The settings of a fast-agent project as a worker uses them: those of version 0.9 in the words of 0.10, and those that
a server must force.

Everything else is handed through untouched.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pallas_teams.fast_agent.config import expand_text

type Settings = dict[str, Any]

FORCED: Mapping[str, Mapping[str, Any] | Any] = {
    "logger": {
        "type": "none",
        "progress_display": False,
        "show_chat": False,
        "show_tools": False,
        "streaming": "none",
    },
    "session_history": False,
    "otel": {"enabled": False},
    "llm_retries": 0,
    "compaction": {"auto": False},
    "mcp": {"client": {"auto_sampling": False}},
    "elicitation": {"mode": "none"},
}
"""What a worker forces: it logs itself, callers keep the history, and nobody sits at a terminal."""


@dataclass(frozen=True, slots=True)
class Translated:
    """The settings, and one sentence for each that was translated or forced."""

    settings: Settings
    notes: tuple[str, ...] = field(default=())


def translate(given: Settings, environ: Mapping[str, str]) -> Translated:
    """Translate the settings of 0.9. Variables with a default as the rest of Pallas writes it are expanded."""
    settings, notes = cast("Settings", _expanded(given, environ)), list[str]()
    for rule in (_targets, _auto_sampling, _timeline, _dropped):
        notes += rule(settings)
    return Translated(settings, tuple(notes))


def force(given: Settings) -> Translated:
    """Force what a worker needs, in settings that are translated."""
    settings, notes = dict(given), list[str]()
    _force(settings, FORCED, "", notes)
    servers = _mapping(_mapping(settings, "mcp"), "servers")
    for name, server in servers.items():
        if isinstance(server, dict) and _static_bearer(cast("Settings", server)):
            auth = _mapping(cast("Settings", server), "auth")
            if auth.setdefault("oauth", False) is False:
                notes.append(f"mcp.servers.{name}.auth.oauth is false, because it has a bearer of its own")
    return Translated(settings, tuple(notes))


def _force(settings: Settings, forced: Mapping[str, Any], path: str, notes: list[str]) -> None:
    for key, value in forced.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            _force(_mapping(settings, key), cast("Mapping[str, Any]", value), f"{name}.", notes)
        elif settings.get(key) != value:
            if key in settings:
                notes.append(f"{name} is forced to {str(value).lower()}")
            settings[key] = value


def _targets(settings: Settings) -> list[str]:
    mcp = _mapping(settings, "mcp")
    targets = mcp.pop("targets", None)
    if not isinstance(targets, list):
        return []
    servers = _mapping(mcp, "servers")
    for number, target in enumerate(cast("list[Any]", targets), 1):
        entry: Settings = {"target": target} if isinstance(target, str) else dict(target)
        name = entry.pop("name", None) or f"target-{number}"
        servers.setdefault(name, entry)
    return ["mcp.targets is read as mcp.servers"]


def _auto_sampling(settings: Settings) -> list[str]:
    if "auto_sampling" not in settings:
        return []
    _mapping(_mapping(settings, "mcp"), "client").setdefault("auto_sampling", settings.pop("auto_sampling"))
    return ["auto_sampling is read as mcp.client.auto_sampling"]


def _timeline(settings: Settings) -> list[str]:
    if "mcp_timeline" not in settings:
        return []
    _mapping(_mapping(settings, "mcp"), "diagnostics").setdefault("timeline", settings.pop("mcp_timeline"))
    return ["mcp_timeline is read as mcp.diagnostics.timeline"]


def _dropped(settings: Settings) -> list[str]:
    dropped = [key for key in ("mcp_ui_mode", "mcp_ui_output_dir") if settings.pop(key, None) is not None]
    return [f"{' and '.join(dropped)} left out: fast-agent no longer has it"] if dropped else []


def _static_bearer(server: Settings) -> bool:
    headers: object = server.get("headers")
    named = (str(name).lower() for name in cast("Settings", headers)) if isinstance(headers, dict) else ()
    return bool(server.get("access_token")) or "authorization" in named


def _mapping(settings: Settings, key: str) -> Settings:
    """The mapping under a key, made if there is none."""
    found: object = settings.get(key)
    if not isinstance(found, dict):
        found = settings[key] = {}
    return cast("Settings", found)


def _expanded(value: object, environ: Mapping[str, str]) -> object:
    each: Callable[[object], object] = lambda item: _expanded(item, environ)  # noqa: E731 - two uses below
    if isinstance(value, dict):
        return {key: each(item) for key, item in cast("Settings", value).items()}
    if isinstance(value, list):
        return [each(item) for item in cast("list[object]", value)]
    return expand_text(value, environ) if isinstance(value, str) and ":-" in value else value
