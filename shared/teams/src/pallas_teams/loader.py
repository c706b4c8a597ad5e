"""Loads team folders: parse, expand, check, build. All faults of all files are reported together."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pallas_teams.addresses import check_config, check_forbidden, check_secrets
from pallas_teams.build import build_team, expand
from pallas_teams.clashes import TeamTree, check_clashes, team_names, token
from pallas_teams.fast_agent.config import check_links, read_config
from pallas_teams.fast_agent.declared import missing_parts
from pallas_teams.fast_agent.kinds import FAST_AGENT, kinds_in
from pallas_teams.fast_agent.project import project_tree
from pallas_teams.faults import Fault, FaultList, Mark, TeamFaults, read_file
from pallas_teams.model import TeamFolder
from pallas_teams.parse import parse_file
from pallas_teams.rules import check_agents
from pallas_teams.schema import CONFIG_SCHEMA, FIELDS, RESERVED_TEAMS, AgentsFile, ConfigFile
from pallas_teams.shape import Branch, merge, parse_shape

AGENTS_FILE = "agents.yaml"
CONFIG_FILE = "fastagent.config.yaml"
SECRETS_FILE = "fastagent.secrets.yaml"

_NAME = re.compile(rb"^name[ \t]*:", re.M)

_FAILURES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""Such as that of a module that is nested too deeply to be parsed."""


def load_team(folder: Path, environ: Mapping[str, str], *, beside: Sequence[Path] = ()) -> TeamFolder:
    """Read one team folder; `beside` are those of other teams, whose secrets and name it must not have.

    Blocks on the disk. `environ` has the values of `${NAME}`, and keys of providers that the folder does not configure.

    Raises:
        TeamFaults: the folder has faults; it holds all of them.
    """
    return load_teams([folder], environ, beside=beside)[0]


def load_teams(
    folders: Iterable[Path], environ: Mapping[str, str], *, beside: Sequence[Path] = ()
) -> tuple[TeamFolder, ...]:
    """Read the folders that one worker hosts, in their order. Names, identities and ports must not clash.

    Raises:
        TeamFaults: a folder has faults; it holds those of all folders.
    """
    faults, folders = FaultList(FIELDS), tuple(folders)
    names = _names((*folders, *beside))
    readings = [_read(folder, names[folder], environ, faults) for folder in folders]
    check_clashes([TeamTree(it.folder, it.name, it.tree) for it in readings if it.tree is not None], faults)
    check_links([it.folder for it in readings], beside, faults)
    teams = [_build(it, environ, faults) for it in readings] if not faults else []
    if faults:
        raise TeamFaults(faults)
    return tuple(
        replace(team, left_out=_below(team.folder, faults.left_out), warnings=_below(team.folder, faults.warnings))
        for team in teams
        if team is not None
    )


def _names(folders: Iterable[Path]) -> dict[Path, str]:
    """The names that teams have if their `agents.yaml` has none. One that has a name keeps no other from its own."""
    names = {folder: token(folder.resolve().name, "team") for folder in folders}
    return names | team_names(folder for folder in names if not _has_name(folder))


def _has_name(folder: Path) -> bool:
    file = folder / AGENTS_FILE
    try:
        return file.is_file() and _NAME.search(read_file(file)) is not None
    except OSError:
        return False


def _below(folder: Path, faults: Iterable[Fault]) -> tuple[Fault, ...]:
    root = folder.absolute()
    return tuple(fault for fault in dict.fromkeys(faults) if Path(fault.file).absolute().is_relative_to(root))


def load_each(
    folders: Sequence[Path], environ: Mapping[str, str], *, beside: Sequence[Path] = ()
) -> tuple[Mapping[Path, TeamFolder], Mapping[Path, TeamFaults]]:
    """Read the folders of several teams: those that can be used, and the faults of the others.

    A folder with faults does not touch the others: of two that clash, the first one without other faults can be used.
    """
    found = {folder: FaultList(FIELDS) for folder in folders}
    names = _names((*folders, *beside))
    readings = [_read(folder, names[folder], environ, faults) for folder, faults in found.items()]
    clashes = FaultList(FIELDS)
    check_clashes(
        [TeamTree(it.folder, it.name, it.tree) for it in readings if it.tree is not None and not found[it.folder]],
        clashes,
    )
    check_links(folders, beside, clashes)
    teams: dict[Path, TeamFolder] = {}
    refused: dict[Path, TeamFaults] = {}
    for reading in readings:
        faults = found[reading.folder]
        team = _build(reading, environ, faults) if not faults else None
        every = [*faults, *(it for it in clashes if Path(it.file).is_relative_to(reading.folder))]
        if team is not None and not every:
            left_out, warnings = (tuple(dict.fromkeys(each)) for each in (faults.left_out, faults.warnings))
            teams[reading.folder] = replace(team, left_out=left_out, warnings=warnings)
        else:
            refused[reading.folder] = TeamFaults(every)
    return teams, refused


@dataclass(frozen=True, slots=True)
class _Reading:
    """What could be read of a folder. `name` is made of its path, `tree` is that of `agents.yaml`.

    Parts with faults are None.
    """

    folder: Path
    name: str
    tree: Branch | None
    team: AgentsFile | None
    config: ConfigFile | None


def _build(reading: _Reading, environ: Mapping[str, str], faults: FaultList) -> TeamFolder | None:
    if reading.team is None or reading.config is None:
        return None
    try:
        team = build_team(reading.folder, reading.name, reading.team, reading.config, environ)
        faults.warnings += missing_parts(team, environ)
        return team
    except (OSError, UnicodeDecodeError, TeamFaults):
        # The instruction file and the settings could be read when they were checked.
        faults.add(Mark(str(reading.folder)), (), "changed while it was being read")
        return None


def _read(folder: Path, name: str, environ: Mapping[str, str], faults: FaultList) -> _Reading:
    """Read a folder. Whatever fails is a fault of this folder: the process reads those of other teams, too."""
    try:
        return _read_folder(folder, name, environ, faults)
    except _FAILURES as error:
        faults.add(Mark(str(folder)), (), f"cannot be read: {type(error).__name__}")
        return _Reading(folder, name, None, None, None)


def _read_folder(folder: Path, name: str, environ: Mapping[str, str], faults: FaultList) -> _Reading:
    if not folder.is_dir():
        faults.add(Mark(str(folder)), (), "is not a folder")
        return _Reading(folder, name, None, None, None)
    tree = _read_agents(folder, name, environ, faults)
    foreign = tree is not None and FAST_AGENT in kinds_in(tree)
    config = read_config(folder, environ, faults) if foreign else _read_config(folder, environ, faults)
    if foreign and config is not None:
        check_config(config, faults)
    if tree is not None:
        check_agents(tree, config, folder, environ, faults)
    return _Reading(
        folder,
        name,
        tree,
        tree and parse_shape(AgentsFile, tree, faults),
        config and parse_shape(CONFIG_SCHEMA, config, faults),
    )


def _read_agents(folder: Path, name: str, environ: Mapping[str, str], faults: FaultList) -> Branch | None:
    written = (folder / AGENTS_FILE).exists()
    parsed = parse_file(folder / AGENTS_FILE, faults) if written else project_tree(folder, name, environ, faults)
    if parsed is None:
        return None
    check_forbidden(parsed, faults)
    given = parsed.text("name")
    if given is not None and given.value in RESERVED_TEAMS:
        faults.add(given.mark, ("name",), "is the name of a service's own team")
    if given is None and name != token(folder.resolve().name, "team"):
        faults.warn(Mark(str(folder)), f"is team {name!r}: another team has the name of its folder")
    return _expanded(parsed, environ, faults) if written else parsed


def _read_config(folder: Path, environ: Mapping[str, str], faults: FaultList) -> Branch | None:
    """The configuration, merged with the secrets. Both files may be missing. None: one cannot be read."""
    config = _parse_optional(folder / CONFIG_FILE, faults)
    secrets = _parse_optional(folder / SECRETS_FILE, faults, secret=True)
    if config is None or secrets is None:
        return None
    check_secrets(secrets, faults)
    merged = merge(config, secrets)
    expanded = _expanded(merged, environ, faults) if isinstance(merged, Branch) else None
    if expanded is not None:
        check_forbidden(expanded, faults)
        check_config(expanded, faults)
    return expanded


def _parse_optional(path: Path, faults: FaultList, *, secret: bool = False) -> Branch | None:
    empty = Branch(Mark(str(path)), {})
    return parse_file(path, faults, secret=secret) if path.exists() else empty


def _expanded(tree: Branch, environ: Mapping[str, str], faults: FaultList) -> Branch | None:
    expanded = expand(tree, environ, faults)
    return expanded if isinstance(expanded, Branch) else None
