"""A fast-agent project as a team: its agents are found in its programs and cards, and need no `agents.yaml`.

A project is a folder with programs that make a `FastAgent`, at its top or below, or with cards: in
`.fast-agent/agent-cards` or `agent-cards`, or at its top.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from errno import EFBIG
from pathlib import Path

from pallas_teams.clashes import digest, token
from pallas_teams.fast_agent.cards import cards_in, is_card, read_card
from pallas_teams.fast_agent.kinds import FAST_AGENT
from pallas_teams.fast_agent.passed_over import passed_over
from pallas_teams.fast_agent.programs import Programs
from pallas_teams.fast_agent.source import DECORATORS, LOADS, NAME_IT, UNNAMED, FoundAgent
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

_LONGEST_DESCRIPTION, _LONGEST_TITLE = 500, 100


def sources_in(folder: Path) -> Iterator[Path]:
    """The files in which a team may be declared, now or later: its settings, programs of fast-agent, and cards."""
    for path in (*folder.glob("*"), *(folder / HOME).glob("*")):
        if path.suffix in (".yaml", ".yml"):
            yield path
    programs = _places(folder)[0]
    yield from (*programs, *_cards(folder, programs=bool(programs)))
    for home in (folder / HOME, folder):
        yield from cards_in(home / TOOL_CARDS)


def project_tree(folder: Path, team: str, environ: Mapping[str, str], faults: FaultList) -> Branch | None:
    """The tree that an `agents.yaml` of the project would have; None if no agent is found. `team` is its name.

    A program or a card that cannot be read is left out. Agents of one name are told apart by their files.
    """
    top, agents = Mark(str(folder)), dict[str, Entry]()
    found = [(source, agent, path.relative_to(folder)) for source, agent, path in _found(folder, environ, faults)]
    named = [each for each in found if each[1].name]
    for _, agent, _ in (each for each in found if not each[1].name):
        faults.leave_out(agent.mark, agent.unseen)
    names = _names([(agent, path) for _, agent, path in named])
    for name, ((field, source), agent, _) in zip(names, named, strict=True):
        if name in RESERVED_AGENTS:
            faults.leave_out(agent.mark, f"no agent can be called {agent.name!r}; {NAME_IT}")
        else:
            agents[name] = Entry(agent.mark, _agent(field, source, agent))
    if not agents:
        for fault in faults.left_out:
            faults.add(Mark(fault.file, fault.line, fault.column), (), fault.message)
        if not faults:
            faults.add(
                top, (), "; ".join((NO_AGENT, *(it.message for it in faults.warnings if it.file == str(folder))))
            )
        return None
    namespace = f"local.pallas.{team.replace('_', '-').strip('-') or 'team'}"
    return Branch(top, {"namespace": Entry(top, Leaf(top, namespace)), "agents": Entry(top, Branch(top, agents))})


def _names(found: Sequence[tuple[FoundAgent, Path]]) -> list[str]:
    """The name of each agent. Where two have one, that of the file comes before it, or that of folder and file.

    Of two that differ only in what a name here cannot have, at most one that is such a name keeps it. The other gets a
    digest of its own one.
    """
    ways = (
        [token(agent.name) for agent, _ in found],
        [_named(path.stem, agent) for agent, path in found],
        [_named("-".join(path.with_suffix("").parts), agent) for agent, path in found],
    )
    taken = [Counter(names) for names in ways]
    names = [
        next((names[at] for names, count in zip(ways, taken, strict=True) if count[names[at]] == 1), "")
        for at in range(len(found))
    ]
    for at in sorted(range(len(found)), key=lambda each: found[each][0].name != ways[0][each]):
        agent, path = found[at]
        if not names[at]:
            exact = agent.name == ways[0][at] and agent.name not in names
            names[at] = agent.name if exact else f"{ways[0][at][:57]}-{digest(f'{path}:{agent.name}')}"
    return names


def _named(file: str, agent: FoundAgent) -> str:
    return token(file if agent.name == UNNAMED else f"{file}-{agent.name}")


def _programs(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if path.is_file() and _names_fast_agent(path)]


def _names_fast_agent(path: Path) -> bool:
    try:
        return b"FastAgent" in read_file(path)
    except OSError as error:
        return error.errno != EFBIG  # it is told why it cannot be read


_USES = re.compile(rb"\.(%s|run|start_server)\(" % "|".join((*sorted(DECORATORS), LOADS)).encode())


def _may_use_another(path: Path) -> bool:
    """Whether a file may have the `FastAgent` of another module."""
    try:
        return _USES.search(read_file(path)) is not None
    except OSError:
        return False


def _places(folder: Path) -> tuple[list[Path], list[Path]]:
    """The Python files that make a `FastAgent`, and the ones beside them: at the top, else below."""
    top = sorted(folder.glob("*.py"))
    if programs := _programs(top):
        return programs, top
    below = _below(folder)
    return _programs(below), [*top, *below]


def _cards(folder: Path, *, programs: bool) -> list[Path]:
    """The cards; those at the top count only if there is nothing else."""
    cards = [path for home in (folder / HOME, folder) for path in cards_in(home / CARDS)]
    return cards if cards or programs else [path for path in cards_in(folder) if is_card(path)]


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
) -> Iterator[tuple[tuple[str, str], FoundAgent, Path]]:
    """The agents that can be called, each with the field of `agents.yaml` that would name its source, and its file."""
    makers, beside = _places(folder)
    programs = Programs(folder, environ, faults)
    also = (
        [path for path in beside if path not in makers and path.is_file() and _may_use_another(path)] if makers else []
    )
    found = programs.find([*makers, *also])
    for path in makers:
        if (mark := programs.unseen(path, found)) is not None:
            faults.leave_out(mark, f"it is not seen here that this is done with a FastAgent; {NAME_IT}")
    for program in found:
        path = program.path.relative_to(folder)
        source = ".".join(path.with_suffix("").parts) if program.relative else path.as_posix()
        yield from ((("module", source), agent, program.path) for agent in program.agents if not agent.tool_only)
    cards: dict[str, Path] = {}
    for path in _cards(folder, programs=bool(makers)):
        if path.resolve() in programs.loaded or (card := read_card(path, environ, faults)) is None:
            continue
        if (first := cards.setdefault(card.name, path)) != path:
            faults.leave_out(card.mark, f"the card {first.relative_to(folder)} has the same name, {card.name!r}")
        elif not card.tool_only:
            yield ("card", path.relative_to(folder).as_posix()), card, path
    looked_at = [*makers, *programs.read, *programs.loaded, *_cards(folder, programs=bool(makers))]
    for told in passed_over(
        folder, CONFIG_NAMES, {path.resolve() for path in looked_at}, top=any(path.parent == folder for path in makers)
    ):
        faults.warn(Mark(str(folder)), told)


def _agent(field: str, source: str, found: FoundAgent) -> Branch:
    mark = found.mark
    title = " ".join(found.name.split())[:_LONGEST_TITLE]
    description = " ".join(found.description.split())[:_LONGEST_DESCRIPTION]
    values = {"kind": FAST_AGENT, field: source, "agent": found.name, "title": title, "description": description}
    return Branch(mark, {key: Entry(mark, Leaf(mark, value)) for key, value in values.items()})


def module_file(folder: Path, name: str) -> str | None:
    """The file of a module, `tools.py` or `my_team.tools`, relative to the folder; None if there is none."""
    if name.endswith(".py"):
        return name
    stem = name.replace(".", "/")
    return next((found for found in (f"{stem}.py", f"{stem}/__init__.py") if (folder / found).is_file()), None)
