"""Finds the agents that Python modules declare for fast-agent, without importing them.

It reads decorators such as `@fast.agent("harper", servers=["argos"])`, where `fast` is a name that the module gives a
`FastAgent`. What a module computes is not seen: an agent whose name is no literal has to be named in `agents.yaml`.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pallas_teams.addresses import FORBIDDEN_REASON
from pallas_teams.faults import FaultList, Mark
from pallas_teams.files import read_file
from pallas_teams.schema import FORBIDDEN

UNNAMED = "default"
_UNNAMED: Mapping[str, str] = dict.fromkeys(("agent", "custom", "smart"), UNNAMED)
"""Decorators whose name may be left out, and the name that fast-agent then gives the agent."""
DECORATORS = frozenset(
    {*_UNNAMED, "orchestrator", "iterative_planner", "router", "chain", "parallel", "evaluator_optimizer", "maker"}
)
_MEMBERS = ("agents", "sequence", "fan_out", "fan_in", "generator", "evaluator", "worker")


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """An agent as its source declares it. `members` are the agents that it uses; `tool_only` ones are no tools.

    `elsewhere`: its program names the file of its settings itself, so its servers are not known here.
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


def read_source(path: Path, faults: FaultList) -> tuple[FoundAgent, ...]:
    """The agents that a module declares. One that is no Python is left out, one that forwards bearers is a fault."""
    try:
        tree = ast.parse(read_file(path), filename=str(path))
    except OSError as error:
        faults.leave_out(Mark(str(path)), f"cannot be read: {error.strerror or type(error).__name__}")
        return ()
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        faults.leave_out(Mark(str(path), line or 0, 1 if line else 0), "is not Python that can be read")
        return ()
    _check_forwarding(tree, path, faults)
    return tuple(_agents(tree, path, dict(_instances(tree))))


def _instances(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """The names that a module gives a `FastAgent`, each with whether that one has settings of its own."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called) as made):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=called) as made):
                pass
            case _:
                continue
        if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)) == "FastAgent":
            yield name, len(made.args) > 1 or any(it.arg == "config_path" for it in made.keywords)


def _agents(tree: ast.AST, path: Path, instances: Mapping[str, bool]) -> Iterator[FoundAgent]:
    found = [
        (decorator, decorator.func.attr, instances[decorator.func.value.id])
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr in DECORATORS
        and isinstance(decorator.func.value, ast.Name)
        and decorator.func.value.id in instances
    ]
    for call, type_, elsewhere in sorted(found, key=lambda each: each[0].lineno):
        options = {keyword.arg: _literal(keyword.value) for keyword in call.keywords if keyword.arg}
        position = 1 if type_ == "custom" else 0
        given = _literal(call.args[position]) if len(call.args) > position else options.get("name")
        unnamed = "name" not in options and len(call.args) <= position
        name = _UNNAMED.get(type_) if unnamed else given
        if isinstance(name, str):
            yield FoundAgent(
                name=name,
                type="agent" if type_ == "smart" else type_,
                mark=Mark(str(path), call.lineno, call.col_offset + 1),
                model=_text(options.get("model")),
                servers=_texts(options.get("servers")),
                members=tuple(member for key in _MEMBERS for member in _texts(options.get(key))),
                tool_only=options.get("tool_only") is True,
                description=_text(options.get("description")) or "",
                elsewhere=elsewhere,
            )


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None


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
