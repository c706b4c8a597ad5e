"""What the programs and cards of a team say of its agents, and what they name although nothing has it.

Nothing is run: what a module computes is not known here.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pallas_teams.build import expand_foreign
from pallas_teams.fast_agent.cards import cards_in, read_card
from pallas_teams.fast_agent.config import config_files
from pallas_teams.fast_agent.kinds import FAST_AGENT
from pallas_teams.fast_agent.models import missing_key, provider_of
from pallas_teams.fast_agent.programs import Programs
from pallas_teams.fast_agent.project import CARDS, HOME, SECRETS_NAMES, TOOL_CARDS, module_file
from pallas_teams.fast_agent.source import FoundAgent
from pallas_teams.fast_agent.translate import expanded, settings_of, translate
from pallas_teams.faults import Fault, FaultList
from pallas_teams.model import AgentConfig, TeamFolder
from pallas_teams.parse import parse_file
from pallas_teams.shape import plain, suggestion

type _Settings = Mapping[str, Any]

_OVERLAYS = "model-overlays"
"""Folder beside the cards with models that a project names itself."""


@dataclass
class Declared:
    """What the sources of a folder declare, each read once."""

    folder: Path
    environ: Mapping[str, str]
    faults: FaultList = field(default_factory=FaultList)

    @cached_property
    def programs(self) -> Programs:
        """The modules of the folder."""
        return Programs(self.folder, self.environ, self.faults)

    def agent(self, agent: AgentConfig) -> FoundAgent | None:
        """What its source says of an agent; None if it has no such agent that can be read."""
        if agent.card is not None:
            return read_card(agent.card, self.environ, self.faults)
        found = {each.name: each for each in self._beside(agent)}
        if agent.member is not None:
            return found.get(agent.member) or found.get("")  # a name that is computed may be it
        return found.get(agent.name) or (list(found.values())[-1] if found else None)

    def names(self, agent: AgentConfig) -> set[str] | None:
        """The agents that one may use; None if they are not all seen."""
        if agent.card is not None:
            found = {each.name for path in self._cards_of(agent.card) if (each := read_card(path, {}, self.faults))}
        else:
            found = {each.name for each in self._beside(agent)}
        return None if "" in found else found

    def _beside(self, agent: AgentConfig) -> tuple[FoundAgent, ...]:
        module = agent.module
        file = module if isinstance(module, Path) else self.folder / (module_file(self.folder, str(module)) or "")
        return self.programs.agents_at(file) if file.is_file() else ()

    def _cards_of(self, card: Path) -> list[Path]:
        """The cards that are loaded together with one."""
        homes = [home / name for home in (self.folder / HOME, self.folder) for name in (CARDS, TOOL_CARDS)]
        beside = [card.parent] if card.parent != self.folder else []
        return [*(path for place in {*homes, *beside} for path in cards_in(place)), *self.folder.glob("*.md"), card]


def missing_parts(team: TeamFolder, environ: Mapping[str, str]) -> Iterator[Fault]:
    """Servers, agents, files, variables and keys of models that are named and are not there, with their lines."""
    agents = {name: agent for name, agent in team.agents.items() if agent.kind == FAST_AGENT}
    sources = Declared(team.folder, environ)
    settings: dict[Path | None, _Settings] = {}
    without_key = set[str]()
    for name, agent in agents.items():
        found, path = sources.agent(agent), f"agents.{name}"
        if found is None:
            if agent.member is not None:
                source = str(agent.card or agent.module)
                yield Fault(source, 0, 0, path, f"no agent {agent.member!r} is found in its source")
            continue
        if found.config not in settings:
            settings[found.config] = yield from _settings(team, found, environ)
        own = settings[found.config]
        mcp: _Settings = own.get("mcp") or {}
        servers: _Settings = mcp.get("servers") or {}
        known = {*(team.servers if found.config is None else ()), *servers}
        for server in found.servers:
            if server not in known and not found.elsewhere:
                yield _fault(found, server, path, f"server {server!r} is not in mcp.servers{suggestion(server, known)}")
        names = sources.names(agent) if found.members else None
        for member in found.members:
            if names is not None and member not in names:
                told = f"there is no agent {member!r}, which it uses{suggestion(member, names - {found.name})}"
                yield _fault(found, member, path, told)
        if found.elsewhere:
            continue
        model = found.model or agent.wanted_model or own.get("default_model") or environ.get("FAST_AGENT_MODEL")
        if not model and found.type == "agent":
            told = "has no model; set default_model, or a model in its source or in agents.yaml"
            yield _fault(found, "", path, told)
        provider = provider_of(str(model)) if model and not _has_overlay(team.folder, str(model)) else None
        if provider and provider not in without_key and (wanted := missing_key(provider, own, environ)):
            without_key.add(provider)
            yield _fault(found, "", path, f"model {model}: there is no key for provider {provider}: {wanted}")


def _fault(found: FoundAgent, named: str, path: str, message: str) -> Fault:
    mark = found.places.get(named, found.mark)
    return Fault(mark.file, mark.line, mark.column, path, message)


def _settings(team: TeamFolder, found: FoundAgent, environ: Mapping[str, str]) -> Generator[Fault, None, _Settings]:
    """The settings of an agent's program, with its secrets, and what is wrong in a file that it names itself."""
    if found.config is None:
        return _merged(settings_of(team.folder, environ).settings, _secrets(config_files(team.folder)[1], environ))
    file, mark, faults = found.config, found.places.get("", found.mark), FaultList()
    beside = [path for name in SECRETS_NAMES if (path := file.parent / name).is_file()]
    secrets = _secrets(beside or config_files(team.folder)[1], environ)
    if not file.is_file():
        shown = file.relative_to(team.folder) if file.is_relative_to(team.folder) else file
        told = f"there is no {shown}, which config_path names, so the program has no settings"
        yield Fault(mark.file, mark.line, mark.column, "", told)
        return secrets
    if (tree := parse_file(file, faults, foreign=True)) is not None:
        expand_foreign(tree, environ, faults)
    yield from (*faults, *faults.warnings)
    read: Any = plain(tree) if tree is not None else {}
    return _merged(translate(expanded(read, environ)).settings, secrets)


def _secrets(paths: Sequence[Path], environ: Mapping[str, str]) -> _Settings:
    tree = parse_file(paths[0], FaultList(), secret=True, foreign=True) if paths else None
    return expanded(plain(tree), environ) if tree is not None else {}


def _merged(base: Any, over: Any) -> Any:
    match base, over:
        case {**below}, {**above}:
            return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
        case _:
            return over


def _has_overlay(folder: Path, model: str) -> bool:
    """Whether the folder itself says how a model is reached."""
    places = (home / _OVERLAYS for home in (folder / HOME, folder))
    return any(
        model.partition("?")[0].encode() in path.read_bytes() for place in places for path in place.glob("*.y*ml")
    )
