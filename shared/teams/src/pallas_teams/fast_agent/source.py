"""Finds the agents that Python modules declare for fast-agent, without importing them.

It reads decorators such as `@fast.agent("harper", servers=["argos"])`, where `fast` is a name that the module gives a
`FastAgent`. What a module computes is not seen, but for names of literals (`NAME = "harper"`): an agent with another
name has to be named in `agents.yaml`.
"""

import ast
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from pallas_teams.addresses import FORBIDDEN_REASON
from pallas_teams.faults import FaultList, Mark, read_file
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

    `name` is empty if it is computed, or if a program makes a `FastAgent` and declares none. `elsewhere`: its program
    names the file of its settings itself, so its servers are not known here.
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
        content = read_file(path)
        if (undecoded := _undecoded(content)) is not None:
            line, why = undecoded
            faults.leave_out(Mark(str(path), line, 1), why)
            return ()
        tree = ast.parse(content, filename=str(path))
    except OSError as error:
        faults.leave_out(Mark(str(path)), f"cannot be read: {error.strerror or type(error).__name__}")
        return ()
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        faults.leave_out(Mark(str(path), line or 0, 1 if line else 0), "is not Python that can be read")
        return ()
    _check_forwarding(tree, path, faults)
    instances = dict(_instances(tree))
    unseen = [FoundAgent("", "agent", Mark(str(path), made.lineno, 1)) for made in instances.values()]
    return tuple(_agents(tree, path, instances)) or tuple(unseen[:1])


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


def _instances(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """The names that a module gives a `FastAgent`, each with the call that makes it."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called) as made):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=called) as made):
                pass
            case _:
                continue
        if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)) == "FastAgent":
            yield name, made


def _agents(tree: ast.Module, path: Path, instances: Mapping[str, ast.Call]) -> Iterator[FoundAgent]:
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
    known = _Known(tree)
    for call, type_, made in sorted(found, key=lambda each: each[0].lineno):
        options = {keyword.arg: known.value(keyword.value) for keyword in call.keywords if keyword.arg}
        position = 1 if type_ == "custom" else 0
        given = known.value(call.args[position]) if len(call.args) > position else options.get("name")
        unnamed = "name" not in options and len(call.args) <= position
        name = _UNNAMED.get(type_) if unnamed else given
        yield FoundAgent(
            name=_text(name) or "",
            type="agent" if type_ == "smart" else type_,
            mark=Mark(str(path), call.lineno, call.col_offset + 1),
            model=_text(options.get("model")),
            servers=_texts(options.get("servers")),
            members=tuple(member for key in _MEMBERS for member in _texts(options.get(key))),
            tool_only=options.get("tool_only") is True,
            description=_text(options.get("description")) or "",
            elsewhere=len(made.args) > 1 or any(it.arg == "config_path" for it in made.keywords),
        )


class _Known(ast.NodeTransformer):
    """Reads expressions of a module of literals, and of names that it gives literals at its top."""

    def __init__(self, tree: ast.Module) -> None:
        self._named: dict[str, ast.Constant] = {}
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() as value):
                    self._named[name] = value
                case _:
                    pass

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """What the name stands for."""
        return self._named.get(node.id, node)

    def value(self, node: ast.expr) -> object:
        """The value; None if it is not known."""
        try:
            return ast.literal_eval(self.visit(node))
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
