"""The modules of all agents, and those that one caller may use. Both follow the bucket of definitions, live."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cachetools import LRUCache

from pallas_contracts.agents import AgentDefinition, JsonObject
from pallas_contracts.catalog import CONSTELLATION, PIPELINES_TEAM
from pallas_contracts.health import AgentHealth
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal
from pallas_cst.functions import Function, Functions
from pallas_cst.stdlib import STANDARD, STANDARD_FUNCTIONS
from pipelines.modules.module import Module, language_names, modules_of, standard_document

_MOST_VIEWS = 256
"""Sets of agents for which the modules are kept."""

_OWN = f"{PIPELINES_TEAM}.{CONSTELLATION}"

_LONGEST_SIGNATURE = 2000


@dataclass(frozen=True, eq=False)
class Modules:
    """The modules that one caller may use, and all functions of the language with them. Compared by identity."""

    by_basis: Mapping[str, Module]
    functions: Functions

    def function(self, name: str) -> Function | None:
        """The function of a name in the language, of `team.agent.tool`, or of a bare name that only one tool has.

        A bare name that no tool has, or more than one, is that of a function of the standard library.
        """
        if (exact := self.functions.by_qualified.get(name)) is not None:
            return exact
        for tool in (True, False):
            named = [function for function in self.functions.named(name) if function.tool is tool]
            if len(named) == 1:
                return named[0]
        module = self.by_basis.get("/".join(name.split(".", 2)))
        return module.function if module is not None else None

    def document(self, function: Function) -> JsonObject:
        """The document of a function."""
        module = self.by_basis.get(function.module)
        return module.document() if module is not None else standard_document(STANDARD[function.module])


@dataclass(frozen=True, slots=True)
class _Made:
    """The modules of an agent, and what they were made from."""

    definition: AgentDefinition
    namespace: str
    modules: tuple[Module, ...]


@dataclass
class Catalogue:
    """All modules. `changed` is called with the key of an agent whose definition has changed.

    `health` looks up the last known health of an agent by its key.
    """

    health: Callable[[str], AgentHealth | None] = lambda _: None
    _agents: dict[str, tuple[Module, ...]] = field(default_factory=dict[str, tuple[Module, ...]])
    _made: dict[str, _Made] = field(default_factory=dict[str, "_Made"])
    _definitions: dict[str, AgentDefinition] = field(default_factory=dict[str, AgentDefinition])
    _views: LRUCache[tuple[str, ...], Modules] = field(default_factory=lambda: LRUCache(_MOST_VIEWS))
    _listeners: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change."""
        self._listeners.append(listener)

    def changed(self, key: str, definition: AgentDefinition | None) -> None:
        """An agent was added, changed or removed (None)."""
        known = self._definitions.get(key)
        if definition is not None and definition.unusable is None and not definition.hidden and key != _OWN:
            self._definitions[key] = definition
        elif self._definitions.pop(key, None) is None:
            return
        if definition is not None and known is not None and known.revision == definition.revision:
            return
        self._agents.clear()
        self._views.clear()
        for listener in self._listeners:
            listener()

    def definition(self, team: str, agent: str) -> AgentDefinition | None:
        """The definition of an agent as it is now."""
        return self._definitions.get(f"{team}.{agent}")

    def away(self, module: Module) -> str | None:
        """Why a module cannot be called now, as far as that is known."""
        health = self.health(f"{module.definition.team}.{module.definition.agent}")
        if health is None or health.status != "error":
            return None
        if (utc_now() - health.at).total_seconds() > 2 * health.interval:
            return None
        return health.message or "its agent is in error"

    def of(self, caller: Principal) -> Modules:
        """The modules that a caller may use."""
        return self._view(tuple(key for key in sorted(self._definitions) if self._definitions[key].allows(caller)))

    def everything(self) -> Modules:
        """The modules of all agents, whoever may use them."""
        return self._view(tuple(sorted(self._definitions)))

    def _view(self, allowed: tuple[str, ...]) -> Modules:
        view = self._views.get(allowed)
        if view is None:
            modules = {module.basis: module for key in allowed for module in self._of_agent(key)}
            functions = Functions((*STANDARD_FUNCTIONS, *(module.function for module in modules.values())))
            view = self._views[allowed] = Modules(modules, functions)
        return view

    def _of_agent(self, key: str) -> tuple[Module, ...]:
        if not self._agents:
            self._agents = self._all()
        return self._agents[key]

    def _all(self) -> dict[str, tuple[Module, ...]]:
        """The modules of every agent. Names depend on all agents of a team, also on those a caller does not see."""
        of_teams: dict[str, list[str]] = defaultdict(list)
        for definition in self._definitions.values():
            of_teams[definition.team].append(definition.agent)
        teams = language_names(of_teams)
        agents = {team: language_names(names) for team, names in of_teams.items()}
        made = dict[str, _Made]()
        for key, it in self._definitions.items():
            namespace, known = f"{teams[it.team]}.{agents[it.team][it.agent]}", self._made.get(key)
            if known is None or known.definition is not it or known.namespace != namespace:
                known = _Made(it, namespace, tuple(modules_of(it, namespace)))
            made[key] = known
        self._made = made
        return {key: each.modules for key, each in made.items()}


def signature_of(function: Function) -> str:
    """The signature of a function, to be compared; of a long one a digest is enough."""
    signature = str(function)
    if len(signature) <= _LONGEST_SIGNATURE:
        return signature
    return f"{function.qualified}(...), sha256:{hashlib.sha256(signature.encode()).hexdigest()}"
