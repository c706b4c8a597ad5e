"""Finds clashes of names, identities and ports between the team folders of one worker.

It reads trees, as `rules` does, so a clash is also found in a folder with other faults.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pallas_teams.faults import FaultList, Mark
from pallas_teams.shape import Branch, Leaf

_NOT_TOKEN = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class TeamTree:
    """A team folder and the tree of its `agents.yaml`."""

    folder: Path
    tree: Branch


def slug(folder: Path) -> str:
    """The team name that is made of a folder's name; empty if none can be made."""
    return token(folder.resolve().name)


def token(text: str) -> str:
    """A name of a team or an agent that is made of any text; empty if none can be made."""
    return _NOT_TOKEN.sub("-", text.lower()).strip("-")[:64]


def check_clashes(teams: Sequence[TeamTree], faults: FaultList) -> None:
    """Add a fault for each name, identity or port that is used twice, also within one folder."""
    _check_names(teams, faults)
    _check_identities(teams, faults)
    _check_ports(teams, faults)


def _check_names(teams: Sequence[TeamTree], faults: FaultList) -> None:
    taken: dict[str, TeamTree] = {}
    for team in teams:
        leaf = team.tree.text("name")
        name = str(leaf.value) if leaf else slug(team.folder)
        first = taken.setdefault(name, team)
        if first is not team:
            message = f"the team name is taken by {first.folder}; give this team another name"
            faults.add(leaf.mark if leaf else team.tree.mark, ("name",), message)


def _check_identities(teams: Sequence[TeamTree], faults: FaultList) -> None:
    """An agent's identity in the registry is its namespace and name."""
    taken: dict[tuple[str, str], TeamTree] = {}
    for team in teams:
        namespace = team.tree.text("namespace")
        domain = str(namespace.value) if namespace else "local.pallas"
        for name, entry in team.tree.branch("agents").entries.items():
            first = taken.setdefault((domain, name), team)
            if first is not team:
                message = f"namespace and name are taken by {first.folder}; rename the agent or set another namespace"
                faults.add(entry.mark, ("agents", name), message)


def _check_ports(teams: Sequence[TeamTree], faults: FaultList) -> None:
    taken: dict[tuple[str, int], str] = {}
    for team in teams:
        host = team.tree.text("host")
        local = str(host.value) if host else ""
        registry = _port(team.tree, "registry_port")
        own = {registry[0]: "registry_port"} if registry else {}
        for name in team.tree.branch("agents").entries:
            path = ("agents", name, "port")
            found = _port(team.tree, *path)
            if found is None:
                continue
            port, mark = found
            holder = own.get(port) or taken.get((local, port))
            if holder:
                faults.add(mark, path, f"the port is taken by {holder}")
            taken.setdefault((local, port), f"agents.{name} of {team.folder}")


def _port(tree: Branch, *path: str) -> tuple[int, Mark] | None:
    match tree.node(*path):
        case Leaf(value=bool()):
            return None
        case Leaf(value=int(port), mark=mark):
            return port, mark
        case Leaf(value=str(text), mark=mark) if text.isdecimal():
            return int(text), mark
        case _:
            return None
