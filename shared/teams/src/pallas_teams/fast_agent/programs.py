"""The programs of a folder: which of its modules make a `FastAgent`, and which agents each has, without running them.

A module may import the `FastAgent` of another one of the folder, so modules are read together. All agents of one
`FastAgent` are loaded through one module: the one that imports most of those that declare them.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pallas_teams.fast_agent.cards import cards_in, read_card
from pallas_teams.fast_agent.literals import Known
from pallas_teams.fast_agent.source import LOADS, NAME_IT, FoundAgent, Module, agent_of, function_of, read_module
from pallas_teams.faults import FaultList, Mark

_CLASS = "FastAgent"
_LIBRARY = "fast_agent"
_MOST_STEPS = 50
"""Names that are followed from one to another."""


@dataclass(frozen=True, slots=True)
class Made:
    """A `FastAgent`, with the place where it is made. Not `at_import`: a function makes it when the program is run."""

    path: Path
    line: int
    at_import: bool


@dataclass(frozen=True, slots=True)
class Program:
    """A module, and the agents that are loaded through it: those of one `FastAgent`."""

    path: Path
    made: Made
    agents: tuple[FoundAgent, ...]
    relative: bool
    """It imports from its own package, so it has to be imported by its name there."""


@dataclass
class Programs:
    """The modules of a folder, each read once. `environ` has the variables of cards that programs load."""

    folder: Path
    environ: Mapping[str, str]
    faults: FaultList
    loaded: set[Path] = field(default_factory=set[Path])
    """Cards that programs load."""
    _read: dict[Path, Module | None] = field(default_factory=dict[Path, Module | None])
    _agents: dict[tuple[Path, Made], tuple[FoundAgent, ...]] = field(
        default_factory=dict[tuple[Path, Made], "tuple[FoundAgent, ...]"]
    )

    @property
    def read(self) -> Collection[Path]:
        """The modules that were read so far."""
        return self._read.keys()

    def find(self, paths: Sequence[Path]) -> list[Program]:
        """The programs among some files, in their order."""
        seen: dict[Made, list[Path]] = {}
        for path in paths:
            for made in self._visible(path):
                seen.setdefault(made, []).append(path)
        found = [self._program(made, through) for made, through in seen.items()]
        # A function that returns a `FastAgent` is called where the agents are declared.
        used = {each.made.path for each in found if any(agent.name for agent in each.agents)}
        found = [each for each in found if each.agents[0].unseen != _NO_AGENT or each.made.path not in used]
        return sorted(found, key=lambda each: (paths.index(each.path), each.made.line))

    def unseen(self, path: Path, programs: Sequence[Program]) -> Mark | None:
        """Where a module declares an agent of what may be a `FastAgent`, if it is none of these programs."""
        module = self.module(path)
        if module is None or not module.uses or any(module in self._closure(each.path) for each in programs):
            return None
        return module.mark(module.uses[0][1])

    def agents_at(self, path: Path) -> tuple[FoundAgent, ...]:
        """The agents of all `FastAgent`s that a module has."""
        return tuple(agent for made in self._visible(path) for agent in self._of(path, made))

    def _program(self, made: Made, through: Sequence[Path]) -> Program:
        def fitness(path: Path) -> tuple[int, int, bool, str]:
            return -len(self._of(path, made)), len(path.parts), path != made.path, str(path)

        path = min(through, key=fitness) if made.at_import else made.path
        module, agents = self.module(path), self._of(path, made)
        if not agents:
            agents = (FoundAgent("", "agent", Mark(str(made.path), made.line, 1), unseen=_NO_AGENT),)
        relative = module is not None and any(level for level, *_ in (*module.imported.values(), *module.stars))
        return Program(path, made, agents, relative and (path.parent / "__init__.py").is_file())

    def module(self, path: Path) -> Module | None:
        """A module; None if it cannot be read, which is told."""
        if path not in self._read:
            self._read[path] = read_module(path, self.faults)
        return self._read[path]

    def _visible(self, path: Path) -> Iterator[Made]:
        """The `FastAgent`s that a module has under a name, or makes without one."""
        if (module := self.module(path)) is None:
            return
        found = dict[Made, None]()
        for name in (*module.made, *module.imported, *module.same, *(owner for owner, _ in module.uses)):
            if isinstance(made := self._what(module, name), Made):
                found[made] = None
        for level, other in module.stars:
            for name in self._names_of(self._other(module, level, other)):
                if isinstance(made := self._what(module, name), Made):
                    found[made] = None
        yield from found
        named = {id(call) for call, _ in module.made.values()}
        for call in module.calls:
            if id(call) not in named and self._what(module, function_of(call)) == "class":
                yield Made(path, call.lineno, at_import=True)

    def _names_of(self, path: Path | None) -> Sequence[str]:
        other = self.module(path) if path else None
        return [name for name in (*other.made, *other.imported, *other.same) if "." not in name] if other else []

    def _of(self, path: Path, made: Made) -> tuple[FoundAgent, ...]:
        """The agents of a `FastAgent` after a module has been imported."""
        if (path, made) not in self._agents:
            found = [agent for module in self._closure(path) for agent in self._declared(module, made)]
            self._agents[path, made] = tuple(self._with_settings(found, made))
        return self._agents[path, made]

    def _declared(self, module: Module, made: Made) -> Iterator[FoundAgent]:
        for owner, call in module.uses:
            what = self._what(module, owner)
            if what != made and (what is not None or owner not in module.parameters):
                continue
            if isinstance(call.func, ast.Attribute) and call.func.attr == LOADS:
                given = [*call.args, *(it.value for it in call.keywords if it.arg == "path")]
                yield from self._cards(
                    Known(module.path, module.tree).path(given[0]) if given else None, module.mark(call)
                )
            else:
                yield agent_of(module, call)

    def _cards(self, given: Path | None, mark: Mark) -> Iterator[FoundAgent]:
        """The agents of the cards that a program loads."""
        if given is None or "://" in str(given) or str(given).startswith(("http:", "https:", "hf:")):
            told = f"the cards that {LOADS} reads here are not seen; {NAME_IT}"
            yield FoundAgent("", "agent", mark, unseen=told)
            return
        if not (place := self.folder / given).exists():
            yield FoundAgent("", "agent", mark, unseen=f"there is no {given} with cards for {LOADS}")
        for path in cards_in(place) if place.is_dir() else [place] if place.is_file() else ():
            self.loaded.add(path.resolve())
            if (card := read_card(path, self.environ, self.faults)) is not None:
                yield card

    def _with_settings(self, agents: Sequence[FoundAgent], made: Made) -> Iterator[FoundAgent]:
        """The agents, of two with one name the last, as fast-agent has them; with the settings that a program names."""
        last = {agent.name or agent.mark: agent for agent in agents}
        module = self.module(made.path)
        calls = (
            [it for it in module.calls if it.lineno == made.line and self._makes(module, function_of(it))]
            if module
            else []
        )
        named = [it.value for call in calls for it in call.keywords if it.arg == "config_path"]
        given = next((it for it in (*named, *(call.args[1] for call in calls if len(call.args) > 1))), None)
        if module is None or given is None or (isinstance(given, ast.Constant) and given.value is None):
            yield from last.values()
            return
        path = Known(module.path, module.tree).path(given)
        config, where = path and self._settings_at(path), {"": module.mark(given)}
        for agent in last.values():
            yield replace(agent, config=config, elsewhere=path is None, places={**agent.places, **where})

    def _settings_at(self, given: Path) -> Path:
        """Where fast-agent looks: at the path, else for a file of this name in the working directory."""
        path, other = self.folder / given, self.folder / given.name
        return other if other.exists() and not path.exists() and not given.is_absolute() else path

    def _closure(self, path: Path) -> list[Module]:
        found: dict[Path, Module] = {}
        left = [path]
        while left:
            if (each := left.pop()) in found or (module := self.module(each)) is None:
                continue
            found[each] = module
            for level, name, member in [
                *module.imported.values(),
                *((level, name, "") for level, name in module.stars),
            ]:
                of_member = self._other(module, level, f"{name}.{member}".strip(".")) if member else None
                left += filter(None, (of_member, self._other(module, level, name)))
        return list(found.values())

    def _makes(self, module: Module, name: str) -> bool:
        return self._what(module, name) == "class"

    def _what(self, module: Module, name: str, steps: int = 0) -> Made | Literal["class"] | None:
        """What a name of a module is: a `FastAgent`, its class or one that is made of it, or something else."""
        if not name or steps > _MOST_STEPS:
            return None
        again = steps + 1
        if name in module.made:
            call, at_import = module.made[name]
            made = self._what(module, function_of(call), again) == "class"
            return Made(module.path, call.lineno, at_import) if made else None
        if name in module.same:
            return self._what(module, module.same[name], again)
        if name in module.bases:
            return "class" if any(self._what(module, it, again) == "class" for it in module.bases[name]) else None
        head, _, rest = name.partition(".")
        if name in module.returned:
            return "class" if any(self._what(module, it, again) == "class" for it in module.returned[name]) else None
        for cut in range(len(name.split(".")), 0, -1):
            head, rest = (".".join(part) for part in (name.split(".")[:cut], name.split(".")[cut:]))
            if head in module.imported:
                return self._of_import(module, module.imported[head], rest, again)
            if rest and head in module.same:
                return self._what(module, f"{module.same[head]}.{rest}", again)
        for level, other in module.stars:
            at = self._other(module, level, other)
            if at is not None and (found := self._in(at, name, again)) is not None:
                return found
        return "class" if name.rpartition(".")[2] == _CLASS else None

    def _of_import(
        self, module: Module, imported: tuple[int, str, str], rest: str, steps: int
    ) -> Made | Literal["class"] | None:
        level, other, member = imported
        if member and (inner := self._other(module, level, f"{other}.{member}".strip("."))) is not None and rest:
            return self._in(inner, rest, steps)
        if (at := self._other(module, level, other)) is not None:
            return self._in(at, ".".join(filter(None, (member, rest))), steps)
        return "class" if (rest or member).rpartition(".")[2] == _CLASS else None

    def _in(self, path: Path, name: str, steps: int) -> Made | Literal["class"] | None:
        other = self.module(path)
        return self._what(other, name, steps) if other is not None and name else None

    def _other(self, module: Module, level: int, name: str) -> Path | None:
        """The file of a module of the folder that a module imports; None if it is one of others."""
        if name.partition(".")[0] == _LIBRARY and not level:
            return None
        places = (module.path.parent, self.folder)
        if level:
            places = (module.path.parents[level - 1],) if level <= len(module.path.parents) else ()
        for place in places:
            stem = place.joinpath(*filter(None, name.split(".")))
            for path in ([stem.with_name(f"{stem.name}.py")] if name else []) + [stem / "__init__.py"]:
                if path.is_relative_to(self.folder) and path.is_file():
                    return path
        return None


_NO_AGENT = f"no agent of this FastAgent is seen here; {NAME_IT}"
