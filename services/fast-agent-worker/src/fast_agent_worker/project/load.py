"""Loads the modules and cards of a project, and gets their `FastAgent`s ready to make agents.

Modules run in this process, which a program has for itself (`programs`). What a module does when it is imported is its
business, but it must not run the agent: that belongs behind `if __name__ == "__main__":`.
"""

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from fast_agent import FastAgent
from fast_agent.core.agent_app import AgentApp
from fast_agent.core.card_tool_attachment import load_and_attach_card_tool_agents
from fast_agent.core.environment_lifecycle import open_environment_with_progress
from fast_agent.core.exceptions import AgentConfigError, ServerConfigError
from fast_agent.core.logging.logger import get_logger
from fast_agent.core.prompt_templates import refresh_execution_environment_context
from fast_agent.core.run_lifecycle import FastAgentRunLifecycle
from fast_agent.core.validation import (
    get_agent_dependencies,
    validate_server_references,
    validate_workflow_references,
)
from fast_agent.ui import console

from fast_agent_worker.project.once import factory_once
from fast_agent_worker.project.reasons import reason_of
from fast_agent_worker.project.run_program import instances_of_a_run
from pallas_contracts.errors import Rejected
from pallas_teams import AgentConfig
from pallas_teams.fast_agent.cards import cards_in
from pallas_teams.fast_agent.project import CARDS, TOOL_CARDS, module_file

log = logging.getLogger(__name__)

_OF_THE_COMMAND = "fast-agent"
"""The name that fast-agent's command gives to what it makes of cards. It is in their instructions."""

_USUAL_NAMES = ("fast", "app", "agents")


@dataclass
class Prepared:
    """A `FastAgent` whose settings, skills and prompt variables are loaded, as for a run without a terminal.

    `tools` has the names of tools that are agents, by agent and by the agent that is its tool, where they are not
    fast-agent's own names. `broken` has why an agent cannot be made, of those that are left out.
    """

    fast: FastAgent
    runtime: Any
    lifecycle: Any
    tools: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    broken: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def servers(self) -> Mapping[str, Any]:
        """The servers of its configuration."""
        config = self.fast.context.config
        return config.mcp.servers if config is not None and config.mcp is not None else {}

    async def close(self) -> None:
        """Leave what the run has entered."""
        await self.lifecycle.exit_stack.aclose()


@dataclass
class Project:
    """The loaded sources of one team folder, by the module or the card."""

    folder: Path
    _cards: FastAgent | None = None
    _loaded: set[Path] = field(default_factory=set[Path])
    _instances: dict[str, list[FastAgent]] = field(default_factory=dict[str, "list[FastAgent]"])
    _prepared: dict[int, Prepared] = field(default_factory=dict[int, Prepared])
    _faulty: dict[Path, str] = field(default_factory=dict[Path, str])
    _run: dict[Path, list[FastAgent]] = field(default_factory=dict[Path, "list[FastAgent]"])

    async def prepared(self, agent: AgentConfig) -> tuple[Prepared, str]:
        """The `FastAgent` that has an agent, ready, and the agent's name there.

        Raises:
            Rejected: its source has no such agent, or cannot be used.
        """
        fast, name = self._find(agent)
        if id(fast) not in self._prepared:
            self._prepared[id(fast)] = await prepare(fast)
        prepared = self._prepared[id(fast)]
        if name in prepared.broken:
            raise Rejected(prepared.broken[name])
        return prepared, name

    async def close(self) -> None:
        """Close everything that was prepared."""
        for prepared in self._prepared.values():
            await prepared.close()

    def _find(self, agent: AgentConfig) -> tuple[FastAgent, str]:
        """The `FastAgent` that has an agent. A program without it is run up to where it would run its agents."""
        if (found := self._among(self._load(agent), agent)) is not None:
            return found
        if agent.module is not None and (file := self._file(agent.module)) is not None:
            if file not in self._run:
                with _as_program(self.folder, file.parent):
                    dotted = str(agent.module) if not isinstance(agent.module, Path) else ""
                    self._run[file] = instances_of_a_run(file, self.folder, dotted.rpartition(".")[0])
            if (found := self._among(self._run[file], agent)) is not None:
                return found
        if agent.member is not None:
            raise Rejected(f"its source has no agent {agent.member!r}")
        raise Rejected("its source declares no agent")

    def _among(self, instances: list[FastAgent], agent: AgentConfig) -> tuple[FastAgent, str] | None:
        for fast in instances:
            for name in (agent.member, agent.name):
                known = self._prepared.get(id(fast))
                if name is not None and (name in fast.agents or (known is not None and name in known.broken)):
                    return fast, name
        if agent.member is not None or not instances or (default := instances[0].get_default_agent_name()) is None:
            return None
        return instances[0], default

    def _file(self, module: str | Path) -> Path | None:
        if isinstance(module, Path):
            return module
        found = module_file(self.folder, module)
        return self.folder / found if found else None

    def _load(self, agent: AgentConfig) -> list[FastAgent]:
        key = str(agent.card or agent.module)
        if key not in self._instances:
            found = [self._read_card(agent.card)] if agent.card else _instances_of(self._import(agent))
            self._instances[key] = found
        return self._instances[key]

    def _read_card(self, card: Path) -> FastAgent:
        """Load a card and those beside it, all into one `FastAgent`, so that they can use each other.

        The default agent of fast-agent's own folder gets its tool cards, as in fast-agent's command.

        Raises:
            Rejected: fast-agent refuses the card.
        """
        if self._cards is None:
            self._cards = FastAgent(_OF_THE_COMMAND, parse_cli_args=False, quiet=True)
        source = card if card.parent == self.folder else card.parent
        if source not in self._loaded:
            self._loaded.add(source)
            self._load_cards(self._cards, source)
            if card.parent.name == CARDS and (tools := source.parent / TOOL_CARDS).is_dir():
                for each in cards_in(tools):
                    attach = partial(load_and_attach_card_tool_agents, self._cards, preferred_agent_names=[])
                    self._load_card(each, lambda path, attach=attach: attach([str(path)]))
        if card in self._faulty:
            raise Rejected(self._faulty[card])
        return self._cards

    def _load_cards(self, into: FastAgent, source: Path) -> None:
        """Load a card, or those of a folder together; one by one if fast-agent refuses one of them."""
        try:
            into.load_agents(source)
        except Exception:  # of many kinds; what is wrong with which card is said below
            log.debug("fast-agent refuses cards", exc_info=True)
            for card in cards_in(source) if source.is_dir() else (source,):
                self._load_card(card, into.load_agents)

    def _load_card(self, card: Path, load: Callable[[Path], object]) -> None:
        try:
            load(card)
        except Exception as error:
            log.exception("a card cannot be loaded", extra={"card": card.name})
            self._faulty[card] = f"its card cannot be loaded: {reason_of(error, self.folder)}"

    def _import(self, agent: AgentConfig) -> ModuleType:
        """Import a module.

        Raises:
            Rejected: it cannot be imported; the log has the traceback.
        """
        module = agent.module
        with _as_program(self.folder, module.resolve().parent if isinstance(module, Path) else None):
            try:
                if isinstance(module, Path):
                    return _import_file(module)
                return importlib.import_module(str(module))
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt | GeneratorExit):
                    raise
                log.exception("a module cannot be imported", extra={"agent": agent.name})
                raise Rejected(f"its module could not be imported: {reason_of(error, self.folder)}") from error


def silence() -> None:
    """Keep fast-agent from writing to the output, which has log lines only."""
    for each in (console.console, console.error_console, console.server_console):
        each.quiet = True


async def prepare(fast: FastAgent) -> Prepared:
    """Do what a run of fast-agent does before it makes its agents.

    Agents that refer to an agent or a server that does not exist are left out, and those that need them.

    Raises:
        Rejected: fast-agent refuses the project.
    """
    lifecycle, broken = FastAgentRunLifecycle(fast), dict[str, str]()
    validate = fast._validate_run_preconditions

    def leave_out() -> None:
        fast._sync_agent_card_mcp_servers()
        broken.update(_broken(fast))
        for name in broken:
            del fast.agents[name]
        if fast.agents:
            validate()

    fast._validate_run_preconditions = leave_out
    try:
        entered = await lifecycle.enter(force_headless=True)
    except Exception as error:
        log.exception("a project cannot be prepared")
        raise Rejected(f"fast-agent refuses the project: {reason_of(error)}") from error
    runtime = entered.runtime
    runtime.model_factory_func = factory_once(runtime.model_factory_func)
    runtime.shell_environment = fast.environments.resolve(None)
    await open_environment_with_progress(runtime.shell_environment, logger=get_logger(__name__))
    await fast._apply_environment_skills(runtime.shell_environment)
    if runtime.global_prompt_context is not None:
        refresh_execution_environment_context(runtime.global_prompt_context, runtime.shell_environment)
        fast._refresh_prompt_context_skills(runtime.global_prompt_context)
    return Prepared(fast, runtime, entered, broken=broken)


def _broken(fast: FastAgent) -> dict[str, str]:
    """The agents that cannot be made with what the project has, each with the reason."""
    found: dict[str, str] = {}
    for name in fast.agents:
        closure = closure_in(fast.agents, name)
        try:
            missing = [each for each in closure if each not in fast.agents]
            if missing:
                raise AgentConfigError(f"there is no agent {missing[0]!r}, which it needs")
            validate_server_references(fast.context, closure)
            validate_workflow_references(closure)
        except (AgentConfigError, ServerConfigError) as error:
            found[name] = f"fast-agent refuses it: {reason_of(error)}"
    return found


def closure_in(agents: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The data of an agent and of all that it depends on, by name; empty for one that there is not."""
    found: dict[str, Any] = {}
    left = [name]
    while left:
        if (each := left.pop()) not in found:
            found[each] = agents.get(each) or {}
            left += get_agent_dependencies(found[each])
    return found


def app_of(prepared: Prepared, agents: dict[str, Any]) -> AgentApp:
    """The `AgentApp` that agents of a turn are in."""
    return AgentApp(agents, tool_only_agents=set(), no_home_mode=prepared.runtime.no_home_mode)


def _instances_of(module: ModuleType) -> list[FastAgent]:
    named = {name: value for name, value in vars(module).items() if isinstance(value, FastAgent)}
    usual = [named[name] for name in _USUAL_NAMES if name in named]
    return [*usual, *(fast for fast in named.values() if fast not in usual)]


def _import_file(path: Path) -> ModuleType:
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"team_module_{len(sys.modules)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python module")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def _as_program(folder: Path, of: Path | None) -> Iterator[None]:
    """Import as if the folder were the working directory, without arguments.

    Modules beside a program, in folder `of`, are found first, as where it is started. Those of the folder are searched
    last: one that is called like one of Python or of a library must not replace that for all others.
    """
    if of is not None and sys.path[0] != str(of):
        sys.path.insert(0, str(of))
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    arguments, sys.argv = sys.argv, ["fast-agent"]
    try:
        yield
    finally:
        sys.argv = arguments
