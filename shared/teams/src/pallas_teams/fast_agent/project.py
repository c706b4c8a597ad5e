"""A fast-agent project as a team: its agents are found in its modules and cards, and need no `agents.yaml`.

A project is a folder with a module that makes a `FastAgent`, or with cards in `.fast-agent/agent-cards`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pallas_teams.clashes import token
from pallas_teams.fast_agent.cards import cards_in, read_card
from pallas_teams.fast_agent.kinds import FAST_AGENT
from pallas_teams.fast_agent.source import FoundAgent, read_source
from pallas_teams.faults import FaultList, Mark
from pallas_teams.files import read_file
from pallas_teams.schema import RESERVED_AGENTS
from pallas_teams.tree import Branch, Entry, Leaf

HOME = ".fast-agent"
CARDS = Path(HOME) / "agent-cards"
TOOL_CARDS = "tool-cards"
"""Beside `agent-cards`: agents that are tools of the default agent, and can be called by nobody else."""

_LONGEST_DESCRIPTION = 500


def is_project(folder: Path) -> bool:
    """Whether the folder may be one: it has cards, or a module that names `FastAgent`."""
    if (folder / CARDS).is_dir():
        return True
    return any(_names_fast_agent(path) for path in folder.glob("*.py") if path.is_file())


def _names_fast_agent(path: Path) -> bool:
    try:
        return b"FastAgent" in read_file(path)
    except OSError:
        return False


def project_tree(folder: Path, faults: FaultList) -> Branch | None:
    """The tree that an `agents.yaml` of the project would have; None if no agent is found."""
    top, agents = Mark(str(folder)), dict[str, Entry]()
    for field, path, found in _found(folder, faults):
        if found.tool_only:
            continue
        name = token(found.name)
        if not name or name in RESERVED_AGENTS:
            faults.add(found.mark, (), f"no agent can be called {found.name!r}; name it in an agents.yaml")
        elif name in agents:
            faults.add(found.mark, (), f"two agents would be called {name!r}; name them in an agents.yaml")
        else:
            agents[name] = Entry(found.mark, _agent(field, path.relative_to(folder).as_posix(), found))
    if not agents:
        if not faults:
            faults.add(top, (), "has no agents.yaml, and no agent is found in its modules and cards")
        return None
    return Branch(top, {"agents": Entry(top, Branch(top, agents))})


def _found(folder: Path, faults: FaultList) -> Iterator[tuple[str, Path, FoundAgent]]:
    for path in sorted(folder.glob("*.py")):
        for found in read_source(path, faults).agents:
            yield "module", path, found
    for path in cards_in(folder / CARDS):
        if (card := read_card(path, faults)) is not None:
            yield "card", path, card


def _agent(field: str, path: str, found: FoundAgent) -> Branch:
    mark = found.mark
    title = " ".join(found.name.split())
    description = " ".join(found.description.split())[:_LONGEST_DESCRIPTION]
    values = {"kind": FAST_AGENT, field: path, "agent": found.name, "title": title, "description": description}
    return Branch(mark, {key: Entry(mark, Leaf(mark, value)) for key, value in values.items()})


def declared(folder: Path, module: Path | str | None, card: Path | None, names: Sequence[str]) -> FoundAgent | None:
    """What the source of an agent says of it: the agent of the first of some names that it declares, else its last.

    None: its source declares none that can be read.
    """
    faults = FaultList()
    if card is not None:
        return read_card(card, faults)
    file = module if isinstance(module, Path) else folder / (module_file(folder, str(module)) or "")
    found = {agent.name: agent for agent in read_source(file, faults).agents} if file.is_file() else {}
    return next((found[name] for name in names if name in found), list(found.values())[-1] if found else None)


def module_file(folder: Path, name: str) -> str | None:
    """The file of a module, `tools.py` or `my_team.tools`, relative to the folder; None if there is none."""
    if name.endswith(".py"):
        return name
    stem = name.replace(".", "/")
    return next((found for found in (f"{stem}.py", f"{stem}/__init__.py") if (folder / found).is_file()), None)
