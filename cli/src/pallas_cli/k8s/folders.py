"""Team folders as a ConfigMap each, and a Secret for the files of secrets; and a team as a cluster hosts it.

Variables that a folder names need no values here: pods have them. Nested files are mounted under their own paths.
"""

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pallas_cli.refused import Refused, WrongUsage
from pallas_teams import TeamFaults, TeamFolder, folder_files, load_teams
from pallas_teams.fast_agent import kinds
from pallas_teams.fast_agent.project import HOME, SECRETS_NAMES
from pallas_teams.providers import PROVIDERS

type Object = dict[str, Any]

FOR_EACH = "pallas.dev/for-each"
"""The annotation of a manifest from which one object is made for each team."""

TEAM = "pallas.dev/team"
"""The label of what belongs to one team."""

FAST_AGENT_TEAM = "pallas.dev/fast-agent-team"
"""The same of the pods of fast-agent-workers: two Deployments of a team must not select each other's pods."""

FAST_AGENT_IMAGE = "pallas.dev/fast-agent-image"
"""The annotation of a worker's manifest with the image of fast-agent-worker, if it is not named like agent-worker's."""

MIGRATION = "pallas.dev/migration"
"""The label of a Job that is made anew when its content changes, because a Job cannot be changed."""

PART_OF = {"app.kubernetes.io/part-of": "pallas"}

LARGEST = 1024 * 1024
"""Bytes that a ConfigMap or a Secret may hold. The API server refuses more."""


def metadata(name: str, namespace: str, team: str | None = None) -> Object:
    """The metadata of an object that is not made of a manifest."""
    return {"name": name, "namespace": namespace, "labels": PART_OF | ({TEAM: team} if team else {})}


def config_map(about: Object, texts: Mapping[str, str], binaries: Mapping[str, str] | None = None) -> Object:
    """A ConfigMap. `binaries` are in base64."""
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": dict(texts)}
    return made | ({"binaryData": dict(binaries)} if binaries else {})


def secret(about: Object, values: Mapping[str, str]) -> Object:
    """A Secret. `values` are in base64."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": "Opaque", "data": dict(values)}


OWN, FAST_AGENT = "own", "fast-agent"
"""Which worker executes an agent: agent-worker, or fast-agent-worker."""

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 63 - len("agent-worker-")
_LONGEST_FAST_NAME = _LONGEST_NAME - len("fast-")
"""KEDA writes the name of a ScaledObject into a label."""


@dataclass(frozen=True, slots=True)
class HostedTeam:
    """A team. `volume` is that of a pod, without its name; `runtimes` are the workers that its agents need."""

    name: str
    agents: tuple[str, ...]
    volume: Object
    runtimes: tuple[str, ...] = (OWN,)

    @property
    def slug(self) -> str:
        """The team's name as a part of names of objects."""
        return slug_of(self.name)


def slug_of(team: str) -> str:
    """The team's name as a part of names of objects.

    Raises:
        Refused: no object can have it.
    """
    slug = team.replace("_", "-")
    if not _LABEL.fullmatch(slug) or len(slug) > _LONGEST_NAME:
        raise Refused(
            f"team {team!r} cannot be named in Kubernetes: at most {_LONGEST_NAME} letters, digits, - and _, "
            "with a letter or digit at both ends"
        )
    return slug


def check_names(teams: Iterable[HostedTeam]) -> None:
    """Check that objects of these teams have different names, which are not too long.

    Raises:
        Refused: two teams would share them, or one is too long.
    """
    names: dict[str, str] = {}
    for team in teams:
        if FAST_AGENT in team.runtimes and len(team.slug) > _LONGEST_FAST_NAME:
            raise Refused(
                f"team {team.name!r} has agents of fast-agent: its name has at most {_LONGEST_FAST_NAME} letters"
            )
        if (other := names.setdefault(team.slug, team.name)) != team.name:
            raise Refused(
                f"teams {other!r} and {team.name!r} would both be named {team.slug!r} in Kubernetes; rename one of them"
            )


_VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)\}")
_UNSET = "https://unset.invalid"
"""The value of a variable that only pods have. It passes where a folder needs an address or a key."""

_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_PRIVATE_KEY = b"PRIVATE KEY-----"


@dataclass(frozen=True, slots=True)
class Team:
    """A team, its files by path, and its secrets.

    `claim` is the volume claim that has the folder, if no ConfigMap brings it.
    """

    name: str
    agents: tuple[str, ...]
    files: Mapping[str, bytes]
    secrets: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    claim: str | None = None
    runtimes: tuple[str, ...] = (OWN,)

    @property
    def hosted(self) -> HostedTeam:
        """The team as pods see it."""
        return HostedTeam(self.name, self.agents, self._volume(), self.runtimes)

    def _volume(self) -> Object:
        if self.claim is not None:
            return {"persistentVolumeClaim": {"claimName": self.claim, "readOnly": True}}
        name: Object = {"name": f"team-{slug_of(self.name)}"}
        secrets = name | _items(self.secrets) | {"optional": True}
        return {"projected": {"sources": [{"configMap": name | _items(self.files)}, {"secret": secrets}]}}

    def objects(self, namespace: str) -> Iterator[Object]:
        """The ConfigMap, and the Secret if there are secrets."""
        about = metadata(f"team-{slug_of(self.name)}", namespace, slug_of(self.name))
        if self.claim is None:
            yield config_map(about, *_texts_and_binaries(self.files))
        if self.secrets:
            yield secret(about, {_key(path): b64encode(text).decode() for path, text in self.secrets.items()})


def read_folders(folders: Sequence[Path], claims: Mapping[str, str]) -> list[Team]:
    """Read and check team folders. `claims` are the volume claims that have the folders of some teams.

    Raises:
        Refused: a folder has faults, or does not fit into a ConfigMap.
    """
    try:
        found = load_teams(folders, _environment(folders))
    except TeamFaults as error:
        raise Refused(*map(str, error.faults)) from error
    if unknown := claims.keys() - {team.name for team in found}:
        raise WrongUsage(f"a claim is given for {', '.join(sorted(unknown))}, of which there is no folder")
    return [_team(each, claims.get(each.name)) for each in found]


def _team(team: TeamFolder, claim: str | None) -> Team:
    shown = [path for path in _shown(team.folder) if claim is None or path.name in SECRETS_NAMES]
    found = {path.relative_to(team.folder).as_posix(): _content(team, path) for path in shown}
    secrets = {path: text for path, text in found.items() if Path(path).name in SECRETS_NAMES}
    files = {path: text for path, text in found.items() if path not in secrets}
    _check_files(team.name, files)
    runtimes = {FAST_AGENT if agent.kind == kinds.FAST_AGENT else OWN for agent in team.agents.values()}
    return Team(team.name, tuple(team.agents), files, secrets, claim, tuple(sorted(runtimes)))


def _content(team: TeamFolder, path: Path) -> bytes:
    """The content of a file of the team: what a link leads to elsewhere is not the team's to publish."""
    if not path.resolve().is_relative_to(team.folder.resolve()):
        raise Refused(f"team {team.name}: {path} is a link out of its folder; put a copy there")
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"team {team.name}: cannot read {path}: {error.strerror}") from error


def _items(paths: Iterable[str]) -> Object:
    """Where the files are mounted, if that is not their keys."""
    nested = any("/" in path for path in paths)
    return {"items": [{"key": _key(path), "path": path} for path in paths]} if nested else {}


def _check_files(team: str, files: Mapping[str, bytes]) -> None:
    keys: dict[str, str] = {}
    for path, content in files.items():
        if (other := keys.setdefault(_key(path), path)) != path:
            raise Refused(f"team {team}: {other!r} and {path!r} would be one file in a ConfigMap; rename one of them")
        if not _KEY.fullmatch(_key(path)):
            raise Refused(f"team {team}: no ConfigMap can hold a file of the name {path!r}")
        if _PRIVATE_KEY in content:
            raise Refused(f"team {team}: {path} has a private key, and a ConfigMap is no place for secrets")
    size = sum(len(path) + len(content) for path, content in files.items())
    if size > LARGEST:
        largest = sorted(files, key=lambda path: -len(files[path]))[:3]
        raise Refused(
            f"team {team}: its files have {size} bytes, and a ConfigMap holds {LARGEST}; the largest are "
            + ", ".join(f"{path} ({len(files[path])})" for path in largest),
            f"keep them elsewhere, or give the folder to pods by a volume: --claim {team}=NAME (deploy/README.md)",
        )


def _texts_and_binaries(files: Mapping[str, bytes]) -> tuple[dict[str, str], dict[str, str]]:
    """The files by key, those that are not UTF-8 in base64."""
    texts, binaries = dict[str, str](), dict[str, str]()
    for path, content in files.items():
        try:
            texts[_key(path)] = content.decode()
        except UnicodeDecodeError:
            binaries[_key(path)] = b64encode(content).decode()
    return texts, binaries


def _shown(folder: Path) -> list[Path]:
    """The files of a folder without hidden ones, which are for tools; fast-agent's own folder is the team's."""
    return sorted(
        path
        for path in folder_files(folder)
        if not any(part.startswith(".") and part != HOME for part in path.relative_to(folder).parts)
    )


def _key(path: str) -> str:
    return path.replace("/", "..")


def _environment(folders: Sequence[Path]) -> dict[str, str]:
    texts = (path.read_text("utf-8", errors="replace") for folder in folders for path in folder.glob("*.yaml"))
    named = {name for text in texts for name in _VARIABLE.findall(text)}
    named |= {provider.variable for provider in PROVIDERS.values() if provider.variable}
    return dict.fromkeys(named, _UNSET) | dict(os.environ)
