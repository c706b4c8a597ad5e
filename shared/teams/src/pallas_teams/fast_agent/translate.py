"""The settings of a fast-agent project as a worker uses them: those of version 0.9 in the words of 0.10, and those that
a server must force.

Everything else is handed through untouched.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pallas_teams.build import expand_text
from pallas_teams.fast_agent.config import config_files
from pallas_teams.faults import FaultList, TeamFaults
from pallas_teams.parse import parse_file
from pallas_teams.shape import plain

type Settings = dict[str, Any]

_AGENT_PATH = re.compile(r"^[^?#]*/teams/[^/?#]+/mcp/[^/?#]+$")

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
    "mcp": {"diagnostics": {"enabled": False}},
}
"""What a worker forces: it logs itself, and callers keep the history."""

_NEEDS_NOBODY = ("none", "auto-cancel")
"""Modes of elicitation for which nobody has to sit at a terminal."""


@dataclass(frozen=True, slots=True)
class Translated:
    """The settings, and one sentence for each that was translated or forced."""

    settings: Settings
    notes: tuple[str, ...] = ()


def settings_of(folder: Path, environ: Mapping[str, str]) -> Translated:
    """The settings of a folder, without its secrets, as its worker uses them.

    Raises:
        TeamFaults: a file cannot be read.
    """
    configs, _ = config_files(folder)
    given = translate(expanded(read_settings(configs), environ))
    forced = force(given.settings)
    return Translated(forced.settings, (*given.notes, *forced.notes))


def read_settings(paths: Sequence[Path]) -> Settings:
    """The settings in the first of some files; none if there is no file.

    Raises:
        TeamFaults: it cannot be read.
    """
    if not paths:
        return {}
    faults = FaultList()
    tree = parse_file(paths[0], faults, foreign=True)
    if tree is None:
        raise TeamFaults(faults)
    return {key: plain(entry.node) for key, entry in tree.entries.items()}


def expanded(value: Any, environ: Mapping[str, str], unset: Callable[[str], object] | None = None) -> Any:
    """Settings with their variables: `${NAME}`, `${NAME:default}` and, as elsewhere, `${NAME:-default}`.

    `unset` is called with each that has no value: fast-agent uses it as it is written.
    """
    match value:
        case {**entries}:
            return {key: expanded(item, environ, unset) for key, item in entries.items()}
        case [*items]:
            return [expanded(item, environ, unset) for item in items]
        case str():
            return expand_text(value, environ, unset)
        case _:
            return value


def translate(given: Settings) -> Translated:
    """Translate the settings of 0.9."""
    settings = deepcopy(given)
    notes: list[str] = []
    for rule in (_targets, _auto_sampling, _timeline, _dropped, _agent_paths):
        notes += rule(settings)
    return Translated(settings, tuple(notes))


def force(given: Settings) -> Translated:
    """Force what a worker needs, in settings that are translated."""
    settings, notes = dict(given), list[str]()
    _force(settings, FORCED, "", notes)
    if _mapping(settings, "elicitation").get("mode") not in _NEEDS_NOBODY:
        _force(settings, {"elicitation": {"mode": "none"}}, "", notes)
    for name, server in _servers(settings).items():
        if _static_bearer(server) and _mapping(server, "auth").setdefault("oauth", False) is False:
            notes.append(f"mcp.servers.{name}.auth.oauth is false, because it has a bearer of its own")
        if server.get("elicitation") and _mapping(server, "elicitation").get("mode") not in _NEEDS_NOBODY:
            server["elicitation"] = {"mode": "none"}
            notes.append(f"mcp.servers.{name}.elicitation.mode is forced to none")
    return Translated(settings, tuple(notes))


def _force(settings: Settings, forced: Mapping[str, Any], path: str, notes: list[str]) -> None:
    for key, value in forced.items():
        name = f"{path}{key}"
        match value:
            case {**inner}:
                _force(_mapping(settings, key), inner, f"{name}.", notes)
            case _ if settings.get(key) == value:
                pass
            case _:
                if key in settings:
                    notes.append(f"{name} is forced to {str(value).lower()}")
                settings[key] = value


def _targets(settings: Settings) -> list[str]:
    mcp = _mapping(settings, "mcp")
    match mcp.pop("targets", None):
        case [*targets]:
            servers = _mapping(mcp, "servers")
        case _:
            return []
    for number, target in enumerate(targets, 1):
        entry: Settings = {"target": target} if isinstance(target, str) else {**target}
        servers.setdefault(entry.pop("name", None) or f"target-{number}", entry)
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


def _agent_paths(settings: Settings) -> list[str]:
    """Keep the paths of agents at a gateway: fast-agent adds `/mcp` to a path with another end and no query."""
    match settings:
        case {"mcp": {"servers": {**_some}}}:
            pass
        case _:
            return []
    notes = list[str]()
    for name, server in _servers(settings).items():
        if isinstance(url := server.get("url"), str) and _AGENT_PATH.search(url):
            server["url"] = f"{url}?agent"
            notes.append(f"mcp.servers.{name}.url is used as it is; fast-agent would add /mcp")
    return notes


def _dropped(settings: Settings) -> list[str]:
    dropped = [key for key in ("mcp_ui_mode", "mcp_ui_output_dir") if settings.pop(key, None) is not None]
    return [f"{' and '.join(dropped)} left out: fast-agent no longer has it"] if dropped else []


def _servers(settings: Settings) -> dict[str, Settings]:
    servers = _mapping(_mapping(settings, "mcp"), "servers")
    return {name: server for name, server in servers.items() if isinstance(server, dict)}


def _static_bearer(server: Settings) -> bool:
    match server.get("headers"):
        case {**headers}:
            named = {str(name).lower() for name in headers}
        case _:
            named = set[str]()
    return bool(server.get("access_token")) or "authorization" in named


def _mapping(settings: Settings, key: str) -> Settings:
    """The mapping under a key, made if there is none."""
    if not isinstance(settings.get(key), dict):
        settings[key] = {}
    return settings[key]
