"""Finds every error code in the sources: which packages raise it, and the HTTP status that it gets there.

A code is the argument `code` of an error, the default code of its class, or the word of a failed or refused turn. A
code that is passed on from another error is found where that one is raised.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from docs.site.paths import ROOT

from pallas_contracts.auth import AUTH_FAILURES
from pallas_contracts.errors import PallasError
from pallas_mcp_calls.model import FailureCode
from pallas_runtime.http.problems import STATUS

_WORD_AT = {"Failed": 0, "Refusal": 0, "Peer": 1, "problem": 2}
"""Which argument is the code, in calls that do not name it."""
_NAMES = ("code", "taken")
"""What arguments that are codes are called."""
_NO_ERRORS = frozenset(
    {"MCPError", "ErrorData", "TurnOutcome", "DeadLetter", "dead_letter", "CallAnswer", "ToolFailed"}
)
"""What has an argument `code` and is no error, or one whose code was found elsewhere."""
_NO_HTTP = frozenset({"agent-gateway", "agent-worker", "bus", "executor", "fast-agent-worker", "health-monitor"})
"""Packages whose errors are not answered over HTTP by their kind."""
_OTHER_STATUS = {(package, "rejected"): 400 for package in ("registry", "pipelines", "fleet")}

type _Kinds = Mapping[str, tuple[str, str]]


@dataclass
class Raised:
    """Where a code is raised, and the HTTP statuses that it gets."""

    packages: set[str] = field(default_factory=set[str])
    statuses: set[int] = field(default_factory=set[int])


def error_codes() -> dict[str, Raised]:
    """The codes of services and shared packages."""
    sources = sorted(path for part in ("services", "shared") for path in (ROOT / part).glob("*/src/**/*.py"))
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sources}
    kinds, constants = _kinds(trees.values()), _constants(trees.values())
    found = defaultdict[str, Raised](Raised)
    for path, tree in trees.items():
        package, known = path.relative_to(ROOT).parts[1], {**constants, **_constants([tree])}
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            for code, status in _codes(call, kinds, known, package):
                found[code].packages.add(package)
                found[code].statuses |= {status} if status is not None else set()
    for reason in AUTH_FAILURES:
        found[reason].packages.add("auth-resolver")
        found[reason].statuses.add(401)
    for code in get_args(FailureCode.__value__):
        found[code].packages.add("mcp-calls")
    return dict(found)


def _codes(call: ast.Call, kinds: _Kinds, known: Mapping[str, str], package: str) -> Iterator[tuple[str, int | None]]:
    """The codes that a call may give an error, each with its status."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    kind, default = kinds.get(name, ("", ""))
    given = next((keyword.value for keyword in call.keywords if keyword.arg in _NAMES), None)
    if given is None and len(call.args) > _WORD_AT.get(name, len(call.args)):
        given = call.args[_WORD_AT[name]]
    if given is not None and name not in _NO_ERRORS:
        status = _status_of(call) if name == "problem" else _status(kind, package)
        yield from ((word, status) for word in _words(given, known))
    elif default:
        yield default, _status(kind, package)


def _status(kind: str, package: str) -> int | None:
    if not kind or package in _NO_HTTP:
        return None
    return _OTHER_STATUS.get((package, kind), STATUS[kind])


def _status_of(call: ast.Call) -> int | None:
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, int) else None


def _words(given: ast.expr, known: Mapping[str, str]) -> Iterator[str]:
    """The texts that an expression may have. A condition is no such text."""
    match given:
        case ast.Constant(str(word)) if word.isidentifier():
            yield word
        case ast.Name(name) if name in known:
            yield known[name]
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_words(body, known), *_words(orelse, known))
        case _:
            pass


def _kinds(trees: Iterable[ast.AST]) -> _Kinds:
    """Kind and default code of every class of errors, by name."""
    found = {kind.__name__: (kind.kind, kind.default_code) for kind in _below(PallasError)}
    for definition in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        base = next((found[it.id] for it in definition.bases if isinstance(it, ast.Name) and it.id in found), None)
        if base is not None and definition.name not in found:
            found[definition.name] = (base[0], _constants([definition]).get("default_code", base[1]))
    return found


def _below(kind: type[PallasError]) -> Iterator[type[PallasError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _below(below)


def _constants(trees: Iterable[ast.Module | ast.ClassDef]) -> dict[str, str]:
    """The texts that have names, at the top of a file or class."""
    found: dict[str, str] = {}
    for statement in (each for tree in trees for each in tree.body):
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(str(word))):
                found[name] = word
            case ast.AnnAssign(target=ast.Name(name), value=ast.Constant(str(word))):
                found[name] = word
            case _:
                pass
    return found
