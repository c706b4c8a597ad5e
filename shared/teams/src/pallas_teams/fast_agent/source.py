"""What one Python module says of fast-agent, without importing it: what it imports, makes and declares.

It reads calls such as `@fast.agent("harper", servers=["argos"])`. What a module computes is not seen, but for names of
literals (`NAME = "harper"`) and paths that are made of them. Which `fast` is a `FastAgent` is found in `programs`:
another module of the folder may make it.
"""

import ast
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from pallas_teams.addresses import FORBIDDEN_REASON
from pallas_teams.fast_agent.literals import Known, dotted
from pallas_teams.faults import FaultList, Mark, read_file
from pallas_teams.schema import FORBIDDEN

UNNAMED = "default"
_UNNAMED: Mapping[str, str] = dict.fromkeys(("agent", "custom", "smart"), UNNAMED)
"""Decorators whose name may be left out, and the name that fast-agent then gives the agent."""
DECORATORS = frozenset(
    {*_UNNAMED, "orchestrator", "iterative_planner", "router", "chain", "parallel", "evaluator_optimizer", "maker"}
)
LOADS = "load_agents"
NAME_IT = "name it in an agents.yaml"
_MEMBERS = ("agents", "sequence", "fan_out", "fan_in", "generator", "evaluator", "worker")


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """An agent as its source declares it. `members` are the agents that it uses; `tool_only` ones are no tools.

    `name` is empty if it is not known, and `unseen` says why. `config` is the file of settings that its program names
    itself; `elsewhere`: it computes that name, so its servers are not known here. `places` are the lines of members and
    servers, where they are not that of the agent.
    """

    name: str
    type: str
    mark: Mark
    model: str | None = None
    servers: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    tool_only: bool = False
    description: str = ""
    elsewhere: bool = False
    config: Path | None = None
    unseen: str = ""
    places: Mapping[str, Mark] = field(default_factory=dict[str, Mark])


@dataclass(frozen=True, slots=True)
class Module:
    """What a module says. Names may have dots (`app.fast`, `self.fast`).

    `imported` are names of other modules: (levels of a relative import, module, name there). `made` are calls whose
    result has a name, each with whether it is made when the module is imported. `uses` are calls of methods that
    declare or load agents, by what they are called on. `parameters` are names of arguments of functions: what a
    function is given is not known. `returned` are the functions whose results a function returns.
    """

    path: Path
    tree: ast.Module
    imported: Mapping[str, tuple[int, str, str]]
    stars: tuple[tuple[int, str], ...]
    made: Mapping[str, tuple[ast.Call, bool]]
    same: Mapping[str, str]
    bases: Mapping[str, tuple[str, ...]]
    uses: tuple[tuple[str, ast.Call], ...]
    calls: tuple[ast.Call, ...]
    parameters: frozenset[str]
    returned: Mapping[str, tuple[str, ...]]

    def mark(self, node: ast.expr) -> Mark:
        """The place of an expression."""
        return Mark(str(self.path), node.lineno, node.col_offset + 1)


def read_module(path: Path, faults: FaultList) -> Module | None:
    """Read a module. One that is no Python is left out, one that forwards bearers is a fault."""
    try:
        content = read_file(path)
        if (undecoded := _undecoded(content)) is not None:
            line, why = undecoded
            faults.leave_out(Mark(str(path), line, 1), why)
            return None
        tree = ast.parse(content, filename=str(path))
    except OSError as error:
        faults.leave_out(Mark(str(path)), f"cannot be read: {error.strerror or type(error).__name__}")
        return None
    except SyntaxError as error:
        mark = Mark(str(path), error.lineno or 0, max(error.offset or 1, 1) if error.lineno else 0)
        faults.leave_out(mark, f"is not Python that can be read: {error.msg}")
        return None
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) if isinstance(error, ValueError) else type(error).__name__
        faults.leave_out(Mark(str(path)), f"is not Python that can be read: {reason}")
        return None
    _check_forwarding(tree, path, faults)
    return _module(path, tree)


def _undecoded(content: bytes) -> tuple[int, str] | None:
    """The line of a module that is not in the encoding that it names, or in UTF-8, with what is wrong; None: it is."""
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(content).readline)
    except SyntaxError as error:
        return 1, f"cannot be decoded: {error.msg}"
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        return content.count(b"\n", 0, error.start) + 1, f"is not {encoding}, which is its encoding"
    return None


def _module(path: Path, tree: ast.Module) -> Module:
    imported: dict[str, tuple[int, str, str]] = {}
    stars: list[tuple[int, str]] = []
    made: dict[str, tuple[ast.Call, bool]] = {}
    same: dict[str, str] = {}
    bases: dict[str, tuple[str, ...]] = {}
    calls: list[ast.Call] = []
    parameters = set[str]()
    returned: dict[str, tuple[str, ...]] = {}
    for node, at_import in _nodes(tree, at_import=True):
        match node:
            case ast.Import(names=names):
                for it in names:
                    imported[it.asname or it.name] = (0, it.name, "")
            case ast.ImportFrom(module=module, names=names, level=level):
                for it in names:
                    if it.name == "*":
                        stars.append((level, module or ""))
                    else:
                        imported[it.asname or it.name] = (level, module or "", it.name)
            case ast.ClassDef(name=name):
                bases[name] = tuple(filter(None, map(dotted, node.bases)))
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ) if name := dotted(target):
                if isinstance(value, ast.Call):
                    if at_import or name not in made:
                        made[name] = (value, at_import)
                elif value is not None and (other := dotted(value)):
                    same[name] = other
            case ast.Call():
                calls.append(node)
            case ast.FunctionDef(name=name):
                returned[name] = tuple(_returned(node))
            case ast.arg(arg=name):
                parameters.add(name)
            case _:
                pass
    uses = [
        (name, call)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in (*DECORATORS, LOADS)
        and (name := dotted(call.func.value))
    ]
    uses.sort(key=lambda each: each[1].lineno)
    return Module(
        path,
        tree,
        imported,
        tuple(stars),
        made,
        same,
        bases,
        tuple(uses),
        tuple(calls),
        frozenset(parameters),
        returned,
    )


def _nodes(node: ast.AST, *, at_import: bool) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes below one, each with whether it is run when the module is imported."""
    left = [(node, at_import)]
    while left:
        each, runs = left.pop()
        yield each, runs
        inside = isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_guard(each)
        of_function = each.decorator_list if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) else []
        left += [(child, runs and (not inside or child in of_function)) for child in ast.iter_child_nodes(each)][::-1]


def _returned(function: ast.FunctionDef) -> Iterator[str]:
    """The functions whose results a function returns, at once or by a name."""
    nodes = list(ast.walk(function))
    made = {
        dotted(target): function_of(it.value)
        for it in nodes
        if isinstance(it, ast.Assign) and isinstance(it.value, ast.Call)
        for target in it.targets
    }
    for node in nodes:
        if isinstance(node, ast.Return) and node.value is not None:
            yield function_of(node.value) if isinstance(node.value, ast.Call) else made.get(dotted(node.value), "")


def _is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in (
        ast.unparse(it) for it in ast.walk(node.test) if type(it) is ast.Name
    )


def function_of(call: ast.Call) -> str:
    """The name of what is called; of an attribute of anything else, that of the attribute. Empty if it has none."""
    return dotted(call.func) or (call.func.attr if isinstance(call.func, ast.Attribute) else "")


def agent_of(module: Module, call: ast.Call) -> FoundAgent:
    """The agent that a call of a decorator declares."""
    known = Known(module.path, module.tree)
    assert isinstance(call.func, ast.Attribute)
    type_ = call.func.attr
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    options = {key: known.value(value) for key, value in given.items()}
    position = 1 if type_ == "custom" else 0
    first = known.value(call.args[position]) if len(call.args) > position else options.get("name")
    unnamed = "name" not in options and len(call.args) <= position
    name = _text(_UNNAMED.get(type_) if unnamed else first) or ""
    return FoundAgent(
        name=name,
        type="agent" if type_ == "smart" else type_,
        mark=module.mark(call),
        model=_text(options.get("model")),
        servers=_texts(options.get("servers")),
        members=tuple(member for key in _MEMBERS for member in _texts(options.get(key))),
        tool_only=options.get("tool_only") is True,
        description=_text(options.get("description")) or "",
        unseen="" if name else f"the name of this agent is computed, so it is not seen here; {NAME_IT}",
        places={
            str(node.value): module.mark(node)
            for key in (*_MEMBERS, "servers")
            for node in (ast.walk(given[key]) if key in given else ())
            if isinstance(node, ast.Constant)
        },
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    match value:
        case [*items]:
            return tuple(item for item in items if isinstance(item, str))
        case _:
            return ()


def _check_forwarding(tree: ast.AST, path: Path, faults: FaultList) -> None:
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=word) | ast.Constant(value=word) if word == FORBIDDEN:
                faults.add(Mark(str(path), node.lineno, node.col_offset + 1), (FORBIDDEN,), FORBIDDEN_REASON)
            case _:
                pass
