"""Finds clashes of names, identities and ports between the team folders of one worker.

It reads trees, as `rules` does, so a clash is also found in a folder with other faults.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pallas_teams.faults import FaultList, Mark
from pallas_teams.schema import RESERVED_TEAMS
from pallas_teams.shape import Branch, Leaf

_NOT_TOKEN = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class TeamTree:
    """A team folder, the name that it has without one in its `agents.yaml`, and the tree of that file."""

    folder: Path
    name: str
    tree: Branch


def team_names(folders: Iterable[Path]) -> dict[Path, str]:
    """The names of teams that are made of their folders' paths, whatever the order.

    It is the name of the folder. Where two would have one, and where it is that of a service's own team, the folders
    above come before it, as many as are needed.
    """
    paths = {folder: folder.resolve() for folder in folders}
    depth = dict.fromkeys(set(paths.values()), 1)
    while True:
        names = {path: token("-".join(path.parts[1:][-deep:]), "team") for path, deep in depth.items()}
        count, deepest = Counter(names.values()), dict[str, int]()
        for path, name in names.items():
            deepest[name] = max(deepest.get(name, 0), depth[path])
        bad = [path for path, name in names.items() if count[name] > 1 or name in RESERVED_TEAMS]
        deeper = [path for path in bad if depth[path] == deepest[names[path]] and depth[path] < len(path.parts) - 1]
        if not deeper:
            break
        for path in deeper:
            depth[path] += 1
    unlike = {path: f"{names[path][:57]}-{digest(str(path))}" if path in bad else names[path] for path in depth}
    return {folder: unlike[path] for folder, path in paths.items()}


def token(text: str, what: str = "agent") -> str:
    """A name that is made of any text, and of a digest if that has letters which a name cannot have.

    If nothing else is left, it begins with `what` it is the name of.
    """
    folded = "".join(it for it in unicodedata.normalize("NFKD", text).casefold() if not unicodedata.combining(it))
    name = _NOT_TOKEN.sub("-", folded).strip("-")[:64].strip("-")
    lost = not name or any(it.isalnum() and not it.isascii() for it in folded)
    return f"{name[:57] or what}-{digest(text)}" if lost else name


def digest(text: str) -> str:
    """A few letters that stand for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:6]


def check_clashes(teams: Sequence[TeamTree], faults: FaultList) -> None:
    """Add a fault for each name, identity or port that is used twice, also within one folder."""
    _check_names(teams, faults)
    _check_identities(teams, faults)
    _check_ports(teams, faults)


def _check_names(teams: Sequence[TeamTree], faults: FaultList) -> None:
    taken: dict[str, TeamTree] = {}
    for team in teams:
        leaf = team.tree.text("name")
        name = str(leaf.value) if leaf else team.name
        first = taken.setdefault(name, team)
        if first is not team and first.folder.resolve() == team.folder.resolve():
            faults.add(team.tree.mark, (), f"is the folder of {first.folder}, which is given too")
        elif first is not team:
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
