"""Makes a `TeamFolder` of checked files. The checks have found all faults, unless a file changes meanwhile."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import SecretStr

from pallas_contracts.agents import Allow, Icon, Limits
from pallas_contracts.costs import Budget, TeamBudget
from pallas_teams.fast_agent.kinds import FAST_AGENT, kind_of_section
from pallas_teams.faults import FaultList, FieldPath, Mark, read_file
from pallas_teams.model import (
    UNBOUNDED,
    AgentConfig,
    HttpServer,
    ModelCapabilities,
    ModelRef,
    ServerConfig,
    StdioServer,
    TeamFolder,
)
from pallas_teams.providers import callable_providers, is_callable, parse_model, provider_config
from pallas_teams.schema import (
    AgentSection,
    AgentsFile,
    AllowSection,
    BudgetSection,
    CapabilitiesSection,
    ConfigFile,
    ServerSection,
)
from pallas_teams.shape import Branch, Entry, Leaf, Node, Row

_MOST_ITERATIONS = 20


def build_team(
    folder: Path, named: str, team: AgentsFile, config: ConfigFile, environ: Mapping[str, str]
) -> TeamFolder:
    """Make the team: read instruction files and fill in defaults. `named`: its name, if it gives none.

    Raises:
        OSError, UnicodeDecodeError: an instruction file has changed since it was checked.
    """
    name = team.name or named
    agents = {key: _agent(folder, key, section, team, config, environ) for key, section in team.agents.items()}
    used = {agent.model.provider for agent in agents.values() if agent.model}
    return TeamFolder(
        folder=folder,
        name=name,
        version=team.version,
        host=team.host,
        namespace=team.namespace,
        registry_port=team.registry_port,
        team_id=team.team_id,
        agents=agents,
        servers={key: _server(folder, name, key, section) for key, section in config.mcp.servers.items()},
        providers={
            provider: provider_config(provider, config, environ)
            for provider in sorted({*used, *callable_providers(config, environ)})
        },
    )


def _agent(
    folder: Path, key: str, section: AgentSection, team: AgentsFile, config: ConfigFile, environ: Mapping[str, str]
) -> AgentConfig:
    kind = kind_of_section(section)
    return AgentConfig(
        name=key,
        kind=kind,
        title=section.title or key,
        description=section.description,
        version=section.version or team.version,
        icon=Icon(src=section.icon) if section.icon else None,
        port=section.port,
        depends_on=section.depends_on,
        servers=section.servers,
        limits=_limits(section, team),
        retry=section.retry,
        retry_of_tools={name: tool.retry for name, tool in section.tools.items()},
        on_unknown_tool_outcome=section.on_unknown_tool_outcome,
        max_iterations=section.max_iterations or (UNBOUNDED if kind == FAST_AGENT else _MOST_ITERATIONS),
        model=_model(section, config, environ),
        capabilities=_capabilities(section.model_capabilities or config.model_capabilities),
        instruction=_instruction(folder, section),
        module=_module(folder, section),
        card=(folder / section.card).absolute() if section.card else None,
        member=section.agent,
        wanted_model=section.model,
        allow=_allow(section.allow),
        default=section.default,
        starters=section.starters,
    )


def _limits(section: AgentSection, team: AgentsFile) -> Limits:
    return Limits(
        turn_timeout=section.turn_timeout,
        queue_timeout=section.queue_timeout,
        max_concurrency=section.max_concurrency,
        max_queued=section.max_queued,
        max_attempts=section.max_attempts,
        max_rate=section.max_rate,
        max_rate_per_caller=section.max_rate_per_caller,
        budget=_budget(team.budget) if team.budget is not None else None,
        keep=(section.keep if section.keep is not None else team.keep) or {},
    )


def _budget(section: BudgetSection) -> TeamBudget:
    each = section.per_caller
    return TeamBudget(
        tokens_per_day=section.tokens_per_day,
        money_per_day=section.money_per_day,
        currency=section.currency,
        per_caller=each and Budget(**each.model_dump(), currency=section.currency),
    )


def _allow(section: AllowSection | None) -> Allow | None:
    if section is None:
        return None
    return Allow(types=section.types, teams=section.teams, tokens=section.tokens)


def _model(section: AgentSection, config: ConfigFile, environ: Mapping[str, str]) -> ModelRef | None:
    kind = kind_of_section(section)
    model = parse_model(section.model or config.default_model or "") if kind != "function" else None
    if kind == "fast-agent" and model is not None and not is_callable(model.provider, config, environ):
        return None  # fast-agent may know more about it
    return model


def _capabilities(section: CapabilitiesSection | None) -> ModelCapabilities | None:
    if section is None:
        return None
    return ModelCapabilities(section.vision, section.context_window, section.max_output_tokens)


def _instruction(folder: Path, section: AgentSection) -> str:
    if section.instruction_file is None:
        return section.instruction or ""
    return read_file(folder / section.instruction_file).decode("utf-8-sig")


def _module(folder: Path, section: AgentSection) -> Path | str | None:
    if section.module is None or not section.module.endswith(".py"):
        return section.module
    return (folder / section.module).absolute()


def _server(folder: Path, team: str, name: str, section: ServerSection) -> ServerConfig:
    if section.url is not None:
        return HttpServer(name, section.url, section.headers)
    place = Path(section.cwd.get_secret_value() if section.cwd else ".")
    return StdioServer(
        name=name,
        command=section.command or SecretStr(""),
        args=section.args,
        env=section.env,
        cwd=(folder / place).absolute(),
        home=str(place) if place.is_absolute() else f"{team}:{place.as_posix()}",
    )


_PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)\}|\$\{")
_FOREIGN = re.compile(r"\$\{([^}]+)\}")
_BODY = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


def expand(node: Node, environ: Mapping[str, str], faults: FaultList, path: FieldPath = ()) -> Node:
    """The tree with all texts expanded. A variable that is not set and has no default is a fault."""
    match node:
        case Branch():
            return Branch(
                node.mark,
                {
                    key: Entry(entry.mark, expand(entry.node, environ, faults, (*path, key)))
                    for key, entry in node.entries.items()
                },
            )
        case Row():
            items = (expand(item, environ, faults, (*path, n)) for n, item in enumerate(node.items))
            return Row(node.mark, tuple(items))
        case Leaf(value=str(text)) if "${" in text:
            return _Expansion(environ, faults, path).leaf(node, text)
        case Leaf():
            return node


def expand_foreign(node: Node, environ: Mapping[str, str], faults: FaultList) -> Node:
    """The tree with the variables that fast-agent expands: an unset one without a default stays as it is."""
    match node:
        case Branch():
            entries = {
                key: Entry(it.mark, expand_foreign(it.node, environ, faults)) for key, it in node.entries.items()
            }
            return Branch(node.mark, entries)
        case Row():
            return Row(node.mark, tuple(expand_foreign(item, environ, faults) for item in node.items))
        case Leaf(value=str(text)) if "${" in text:
            said = "environment variable {!r} is not set; fast-agent uses the text as it is"
            expanded = expand_text(text, environ, lambda name: faults.warn(node.mark, said.format(name)))
            return Leaf(node.mark, expanded, secret=True)
        case Leaf():
            return node


def expand_text(text: str, environ: Mapping[str, str], unset: Callable[[str], object] | None = None) -> str:
    """`${NAME}` and `${NAME:default}` as fast-agent has them, and `${NAME:-default}` as the rest of Pallas has it."""

    def put(found: re.Match[str]) -> str:
        name, colon, default = found[1].partition(":")
        if default.startswith("-"):
            return environ.get(name) or default[1:]
        if unset is not None and name not in environ and not colon and name.isidentifier():
            unset(name)
        return environ.get(name, default if colon else found[0])

    return _FOREIGN.sub(put, text)


class _Expansion:
    """The expansion of one leaf."""

    def __init__(self, environ: Mapping[str, str], faults: FaultList, path: FieldPath) -> None:
        self._environ = environ
        self._faults = faults
        self._path = path

    def leaf(self, leaf: Leaf, text: str) -> Leaf:
        expanded = _PLACEHOLDER.sub(lambda found: self._put(found, leaf.mark), text)
        return Leaf(leaf.mark, expanded, secret=True)

    def _put(self, found: re.Match[str], mark: Mark) -> str:
        if found.group() == "$${":
            return "${"
        body = _BODY.fullmatch(found["body"] or "")
        if body is None:
            self._faults.add(
                mark, self._path, "'${' must begin ${NAME} or ${NAME:-default}; write '$${' for a plain '${'"
            )
            return ""
        name, default = body["name"], body["default"]
        value = self._environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            self._faults.add(mark, self._path, f"environment variable {name!r} is not set and has no default")
        return value or ""
