"""A fast-agent project as a team: its agents are found in its programs and cards, and need no `agents.yaml`.

A project is a folder with programs that make a `FastAgent`, at its top or below, or with cards: in
`.fast-agent/agent-cards` or `agent-cards`, or at its top.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pallas_teams.clashes import slug, token
from pallas_teams.fast_agent.cards import cards_in, is_card, read_card
from pallas_teams.fast_agent.kinds import FAST_AGENT
from pallas_teams.fast_agent.source import UNNAMED, FoundAgent, read_source
from pallas_teams.faults import FaultList, Mark, read_file
from pallas_teams.schema import RESERVED_AGENTS
from pallas_teams.shape import Branch, Entry, Leaf

HOME = ".fast-agent"
CONFIG_NAMES = ("fast-agent.yaml", "fast-agent.config.yaml", "fastagent.config.yaml")
SECRETS_NAMES = ("fast-agent.secrets.yaml", "fastagent.secrets.yaml")
CARDS = "agent-cards"
TOOL_CARDS = "tool-cards"
"""Beside `agent-cards`: agents that are tools of the default agent, and can be called by nobody else."""

NO_AGENT = (
    "no agent is found: there is no agents.yaml, no program with a FastAgent at the top or below (but for folders with "
    "a configuration of fast-agent of their own), and no card of fast-agent in .fast-agent/agent-cards, in agent-cards "
    "or at the top"
)

_DEEPEST, _MOST_FILES = 3, 2000
"""How far below the top programs are looked for: levels, and Python files."""

_LONGEST_DESCRIPTION = 500


def sources_in(folder: Path) -> Iterator[Path]:
    """The files in which a team may be declared, now or later: its settings, programs of fast-agent, and cards."""
    for path in (*folder.glob("*"), *(folder / HOME).glob("*")):
        if path.suffix in (".yaml", ".yml"):
            yield path
    for _, path in _sources(folder):
        yield path
    for home in (folder / HOME, folder):
        yield from cards_in(home / TOOL_CARDS)


def project_tree(folder: Path, environ: Mapping[str, str], faults: FaultList) -> Branch | None:
    """The tree that an `agents.yaml` of the project would have; None if no agent is found.

    A program or a card that cannot be read is left out. Agents of one name are told apart by their files.
    """
    top, agents = Mark(str(folder)), dict[str, Entry]()
    found = [(*it, path.relative_to(folder)) for it, path in _found(folder, environ, faults)]
    names = _names([(agent, path) for _, agent, path in found])
    for name, (field, agent, path) in zip(names, found, strict=True):
        if not agent.name or not name or name in RESERVED_AGENTS:
            why = (
                f"no agent can be called {agent.name!r}" if agent.name else "what the agent is called is not seen here"
            )
            faults.leave_out(agent.mark, f"{why}; name it in an agents.yaml")
        elif name in agents:
            faults.leave_out(agent.mark, f"two agents would be called {name!r}; name them in an agents.yaml")
        else:
            agents[name] = Entry(agent.mark, _agent(field, path.as_posix(), agent))
    if not agents:
        for fault in faults.left_out:
            faults.add(Mark(fault.file, fault.line, fault.column), (), fault.message)
        if not faults:
            faults.add(top, (), NO_AGENT)
        return None
    namespace = f"local.pallas.{slug(folder).replace('_', '-').strip('-') or 'team'}"
    return Branch(top, {"namespace": Entry(top, Leaf(top, namespace)), "agents": Entry(top, Branch(top, agents))})


def _names(found: Sequence[tuple[FoundAgent, Path]]) -> list[str]:
    """The name of each agent. Where two have one, that of the file comes before it, or that of folder and file."""
    ways = (
        [token(agent.name) for agent, _ in found],
        [_named(path.stem, agent) for agent, path in found],
        [_named("-".join(path.with_suffix("").parts), agent) for agent, path in found],
    )
    taken = [Counter(names) for names in ways]
    return [
        next((names[at] for names, count in zip(ways, taken, strict=True) if count[names[at]] == 1), ways[-1][at])
        for at in range(len(found))
    ]


def _named(file: str, agent: FoundAgent) -> str:
    return token(file if agent.name == UNNAMED else f"{file}-{agent.name}")


def _sources(folder: Path) -> Iterator[tuple[str, Path]]:
    """The programs and cards, each with the field of `agents.yaml` that would name it."""
    programs = _programs(sorted(folder.glob("*.py"))) or _programs(_below(folder))
    yield from (("module", path) for path in programs)
    cards = [path for home in (folder / HOME, folder) for path in cards_in(home / CARDS)]
    if not cards and not programs:
        cards = [path for path in cards_in(folder) if is_card(path)]
    yield from (("card", path) for path in cards)


def _programs(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if path.is_file() and _names_fast_agent(path)]


def _names_fast_agent(path: Path) -> bool:
    try:
        return b"FastAgent" in read_file(path)
    except OSError:
        return True  # it is told why it cannot be read


def _below(folder: Path) -> list[Path]:
    """Python files below the top. A folder with a configuration of its own is another project."""
    found: list[Path] = []
    for parent, folders, files in folder.walk():
        depth = len(parent.relative_to(folder).parts)
        other = depth > 0 and any(name in files for name in (*CONFIG_NAMES, "pyvenv.cfg"))
        if other or depth >= _DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name != "node_modules")
        if depth and not other:
            found += (parent / name for name in sorted(files) if name.endswith(".py"))
        if len(found) > _MOST_FILES:
            break
    return found[:_MOST_FILES]


def _found(
    folder: Path, environ: Mapping[str, str], faults: FaultList
) -> Iterator[tuple[tuple[str, FoundAgent], Path]]:
    cards: dict[str, Path] = {}
    for field, path in _sources(folder):
        card = read_card(path, environ, faults) if field == "card" else None
        if card is not None and (first := cards.setdefault(card.name, path)) != path:
            faults.leave_out(card.mark, f"the card {first.relative_to(folder)} has the same name, {card.name!r}")
            continue
        agents = read_source(path, faults) if field == "module" else [card] if card else []
        yield from (((field, agent), path) for agent in agents if not agent.tool_only)


def _agent(field: str, path: str, found: FoundAgent) -> Branch:
    mark = found.mark
    title = " ".join(found.name.split())
    description = " ".join(found.description.split())[:_LONGEST_DESCRIPTION]
    values = {"kind": FAST_AGENT, field: path, "agent": found.name, "title": title, "description": description}
    return Branch(mark, {key: Entry(mark, Leaf(mark, value)) for key, value in values.items()})


def module_file(folder: Path, name: str) -> str | None:
    """The file of a module, `tools.py` or `my_team.tools`, relative to the folder; None if there is none."""
    if name.endswith(".py"):
        return name
    stem = name.replace(".", "/")
    return next((found for found in (f"{stem}.py", f"{stem}/__init__.py") if (folder / found).is_file()), None)
