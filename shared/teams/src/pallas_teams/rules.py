"""Rules about several fields of `agents.yaml`, and about it and the configuration.

They read trees, not checked sections, so that they also find faults when the shape of another part is wrong. A part
with the wrong shape is skipped here.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from pallas_teams.fast_agent.cards import read_card
from pallas_teams.fast_agent.kinds import FAST_AGENT, kind_of, kinds_in
from pallas_teams.fast_agent.project import module_file
from pallas_teams.fast_agent.source import read_module
from pallas_teams.faults import FaultList, FieldPath, file_fault
from pallas_teams.providers import OFFLINE, PROVIDERS, missing_setting, parse_model
from pallas_teams.schema import RESERVED_AGENTS, TOKEN
from pallas_teams.shape import Branch, Entry, Leaf, suggestion

_LLM_ONLY = (
    "instruction",
    "instruction_file",
    "model",
    "model_capabilities",
    "max_iterations",
    "on_unknown_tool_outcome",
)
_IN_ITS_SOURCE = ("servers", "on_unknown_tool_outcome", "instruction", "instruction_file")
_MADE_BY = {"module": "function or fast-agent", "card": "fast-agent"}
*_FIRST, _LAST = OFFLINE, *(f"{provider}.NAME" for provider in PROVIDERS)
_MODEL_NAMES = f"must be {', '.join(_FIRST)} or {_LAST}"
_DOTTED = "must be a Python file of the folder (tools.py) or a dotted module name (my_team.tools)"


def check_agents(
    team: Branch, config: Branch | None, folder: Path, environ: Mapping[str, str], faults: FaultList
) -> None:
    """Check every agent. `config` is None if the configuration could not be read; its rules are then skipped."""
    agents = team.branch("agents")
    for name, entry in agents.entries.items():
        path = ("agents", name)
        _check_name(name, entry, path, faults)
        if not isinstance(entry.node, Branch):
            continue
        agent = entry.node
        _check_kind(agent, entry, path, faults)
        _check_files(agent, path, folder, environ, faults)
        _check_references(agent, path, "depends_on", set(agents.entries), "agents", faults)
        _check_tools(agent, path, faults)
        if config is not None:
            _check_references(
                agent, path, "servers", set(config.branch("mcp", "servers").entries), "mcp.servers", faults
            )
            _check_model(agent, entry, path, config, environ, faults)
    _check_cycles(agents, faults)
    if config is not None and (FAST_AGENT not in kinds_in(team) or _default_is_ours(agents)):
        _check_model_name(config.text("default_model"), ("default_model",), config, environ, faults)


def _default_is_ours(agents: Branch) -> bool:
    """Whether an agent that is not fast-agent's uses the default model, which may be one that only fast-agent knows."""
    found = (entry.node for entry in agents.entries.values() if isinstance(entry.node, Branch))
    return any(kind_of(agent) == "llm" and not agent.has("model") for agent in found)


def _check_name(name: str, entry: Entry, path: FieldPath, faults: FaultList) -> None:
    if not TOKEN.fullmatch(name):
        faults.add(entry.mark, path, "an agent's name must be 1 to 64 characters of a-z, 0-9, '_' and '-'")
    elif name in RESERVED_AGENTS:
        faults.add(entry.mark, path, f"no agent can be called {name!r}: every agent has a tool of that name")


def _check_kind(agent: Branch, entry: Entry, path: FieldPath, faults: FaultList) -> None:
    kind = kind_of(agent)
    if kind == "function":
        if not agent.has("module"):
            faults.add(entry.mark, (*path, "module"), "is needed for kind function: the Python file with its tools")
        for field in _LLM_ONLY:
            if agent.has(field):
                faults.add(
                    agent.entries[field].mark, (*path, field), "is only for kind llm; a function agent has no model"
                )
    elif kind == FAST_AGENT:
        _check_fast_agent(agent, entry, path, faults)
    else:
        for field in ("module", "card"):
            if agent.has(field):
                faults.add(agent.entries[field].mark, (*path, field), f"is for kind {_MADE_BY[field]}, not for llm")
    if agent.has("instruction") and agent.has("instruction_file"):
        mark = agent.entries["instruction_file"].mark
        faults.add(mark, (*path, "instruction_file"), "instruction is given too; keep only one of the two")


def _check_fast_agent(agent: Branch, entry: Entry, path: FieldPath, faults: FaultList) -> None:
    if agent.has("module") == agent.has("card"):
        faults.add(entry.mark, (*path, "module"), "kind fast-agent needs either a module or a card")
    for field in _IN_ITS_SOURCE:
        if agent.has(field):
            mark = agent.entries[field].mark
            faults.add(mark, (*path, field), "is not for kind fast-agent: the module or the card says it")


def _check_files(agent: Branch, path: FieldPath, folder: Path, environ: Mapping[str, str], faults: FaultList) -> None:
    checks: dict[str, Callable[[str], str | None]] = {
        "instruction_file": lambda name: file_fault(folder, name, text=True),
        "module": lambda name: _module_fault(folder, name),
    }
    for field, check in checks.items():
        leaf = agent.text(field)
        if field == "module" and kind_of(agent) != "function":
            continue
        problem = check(str(leaf.value)) if leaf else None
        if leaf and problem:
            faults.add(leaf.mark, (*path, field), problem)

    if kind_of(agent) == FAST_AGENT:
        _check_sources(agent, path, folder, environ, faults)


def _check_sources(agent: Branch, path: FieldPath, folder: Path, environ: Mapping[str, str], faults: FaultList) -> None:
    """Read the module or the card of a fast-agent agent, without running it. Links are followed, as fast-agent does."""
    for field in ("module", "card"):
        leaf = agent.text(field)
        if leaf is None:
            continue
        name = str(leaf.value)
        found = module_file(folder, name) if field == "module" else name
        text = field == "card"  # a module may say how it is encoded
        problem = file_fault(folder, found, text=text, links=True) if found else "no such module in the team's folder"
        if problem or not found:
            faults.add(leaf.mark, (*path, field), problem or "")
        elif field == "module":
            read_module(folder / found, faults)
        else:
            read_card(folder / found, environ, faults)


def _module_fault(folder: Path, name: str) -> str | None:
    if name.endswith(".py"):
        return file_fault(folder, name)
    return None if all(part.isidentifier() for part in name.split(".")) else _DOTTED


def _check_references(
    agent: Branch, path: FieldPath, field: str, known: set[str], where: str, faults: FaultList
) -> None:
    seen: set[str] = set()
    for position, leaf in agent.texts(field):
        name, place = str(leaf.value), (*path, field, position)
        if name in seen:
            faults.add(leaf.mark, place, f"{leaf.quoted} is listed twice")
        elif name not in known:
            faults.add(leaf.mark, place, f"{leaf.quoted} is not in {where}{suggestion(name, known)}")
        seen.add(name)


def _check_tools(agent: Branch, path: FieldPath, faults: FaultList) -> None:
    """Check that each tool is one of a server of the agent. Which tools a server has is not known here."""
    servers = {str(leaf.value) for _, leaf in agent.texts("servers")}
    known = kind_of(agent) != FAST_AGENT  # else only its module or card knows
    for name, entry in agent.branch("tools").entries.items():
        server, slash, tool = name.partition("/")
        if not slash or not tool or (known and server not in servers):
            faults.add(entry.mark, (*path, "tools", name), "must be server/tool, with a server of this agent")


def _check_model(
    agent: Branch, entry: Entry, path: FieldPath, config: Branch, environ: Mapping[str, str], faults: FaultList
) -> None:
    if kind_of(agent) != "llm":
        return
    if not agent.has("model") and not config.has("default_model"):
        faults.add(entry.mark, (*path, "model"), "is needed: set it here, or default_model in fastagent.config.yaml")
    elif agent.has("model"):
        _check_model_name(agent.text("model"), (*path, "model"), config, environ, faults)


def _check_model_name(
    leaf: Leaf | None, path: FieldPath, config: Branch, environ: Mapping[str, str], faults: FaultList
) -> None:
    """Check that a model's name can be parsed, and that its provider can be called."""
    if leaf is None:
        return
    model = parse_model(str(leaf.value))
    if model is None:
        faults.add(leaf.mark, path, _MODEL_NAMES)
        return
    section = config.branch(model.provider)
    base_url, api_key = section.text("base_url"), section.text("api_key")
    missing = missing_setting(
        model.provider,
        base_url=base_url is not None,
        api_key=bool(api_key and api_key.value),
        environ=environ,
    )
    if missing:
        faults.add(leaf.mark, path, missing)


def _check_cycles(agents: Branch, faults: FaultList) -> None:
    """Report each cycle once, at its first agent in the order of the file."""
    graph = {
        name: [str(leaf.value) for _, leaf in entry.node.texts("depends_on")] if isinstance(entry.node, Branch) else []
        for name, entry in agents.entries.items()
    }
    done: set[str] = set()
    for start in graph:
        for cycle in _cycles(graph, start, [], done):
            mark = agents.entries[cycle[0]].mark
            way = " -> ".join([*cycle, cycle[0]])
            faults.add(mark, ("agents", cycle[0], "depends_on"), f"is a cycle: {way}")


def _cycles(graph: Mapping[str, list[str]], name: str, trail: list[str], done: set[str]) -> list[list[str]]:
    if name in trail:
        return [trail[trail.index(name) :]]
    if name in done or name not in graph:
        return []
    found = [cycle for other in graph[name] for cycle in _cycles(graph, other, [*trail, name], done)]
    done.add(name)
    return found
