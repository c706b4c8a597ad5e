"""The graph of a checked program: its inputs, calls and outputs, and which of them needs which.

Operators, records, variables and control flow are no nodes: what they need, whatever uses them needs. An edge is
conditional if the value is needed only in some cases: in a branch that may not be taken, on the right side of `??`,
`and` and `or`, or as a fallback. The items of a list come from the arguments beside the lambda that is called for them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pallas_cst import syntax as s
from pallas_cst import types as t
from pallas_cst.check import Checked
from pallas_cst.faults import Code, Fault, Faulty, Span
from pallas_cst.pretty import option_texts

MOST_LINKS = 100_000
"""The most edges, and steps on the way to them: a short program can have a number that grows with its square."""

type Kind = Literal["input", "module", "output"]


@dataclass(frozen=True, slots=True)
class Node:
    """An input, a call or an output.

    `name` is unique: `input:order`, `output:order`, `module:demo.tools.fetch`; further calls of one module end with
    `#2`, `#3`. `label` is the name of the input, the function or the output; `options` are those of the call as text.
    `place` is the number of the call in the program.
    """

    name: str
    kind: Kind
    label: str
    type: t.Type
    span: Span
    options: str = ""
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """The value of `source` is needed for `target`; both are names of nodes."""

    source: str
    target: str
    conditional: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """Inputs, then calls as they stand in the program, then outputs; edges in the order of their targets."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]

    def as_json(self) -> dict[str, Any]:
        """The graph as `compile` answers it (`constellation-mcp-rfc-018.md`, tool `compile`)."""
        return {
            "nodes": [node.name for node in self.nodes],
            "edges": [[edge.source, edge.target] for edge in self.edges],
        }


def graph(checked: Checked) -> Graph:
    """The graph of a program.

    Raises:
        Faulty: it is too large.
    """
    declared = checked.program.declarations
    inputs = {each.name.text: each for each in declared if isinstance(each, s.Input)}
    outputs = {each.name.text: each for each in declared if isinstance(each, s.Output)}
    nodes = [
        *(_outer("input", name, checked.inputs[name], each.name.span) for name, each in inputs.items()),
        *_modules(checked),
        *(_outer("output", name, checked.outputs[name], each.name.span) for name, each in outputs.items()),
    ]
    names = {call: node.name for call, node in zip(checked.numbers, nodes[len(inputs) :], strict=False)}
    links = _Links(checked, names)
    order = {node.name: number for number, node in enumerate(nodes)}
    edges = [
        Edge(source, node.name, conditional)
        for node in nodes
        for source, conditional in sorted(links.of(node.name).items(), key=lambda link: order[link[0]])
    ]
    return Graph(nodes, edges)


def _outer(kind: Kind, name: str, of: t.Type, span: Span) -> Node:
    return Node(f"{kind}:{name}", kind, name, of, span)


def _modules(checked: Checked) -> Iterator[Node]:
    counts = dict[str, int]()
    for call, number in checked.numbers.items():
        label = checked.function(call).qualified
        counts[label] = counts.get(label, 0) + 1
        name = f"module:{label}" if counts[label] == 1 else f"module:{label}#{counts[label]}"
        options = ", ".join(f"{option}: {value}" for option, value in option_texts(call.options).items())
        yield Node(name, "module", label, checked.types[call], call.span, options, str(number))


type _Sources = Mapping[str, bool]
"""Names of the nodes whose values are needed, and whether that is so in some cases only."""


class _Links:
    """Finds what each node needs."""

    def __init__(self, checked: Checked, names: Mapping[s.Call, str]) -> None:
        self._checked = checked
        self._names = names
        self._declared: dict[s.Declaration, _Sources] = {}
        self._needs: dict[str, _Sources] = {}
        self._count = 0
        for each in checked.program.declarations:
            if isinstance(each, s.Input):
                self._declared[each] = {f"input:{each.name.text}": False}
            elif isinstance(each, s.Assignment):
                self._declared[each] = self._sources(each.value, {})
        for name, origin in checked.origins.items():
            self._needs[f"output:{name}"] = self._declared[origin]

    def of(self, name: str) -> _Sources:
        return self._needs.get(name, {})

    def _sources(self, expr: s.Expr, scope: Mapping[str, _Sources]) -> _Sources:
        match expr:
            case s.Constant():
                return {}
            case s.Variable(name):
                origin = self._checked.variables[expr]
                return scope[name] if origin is None else self._declared[origin]
            case s.Call():
                return {self._call(expr, scope): False}
            case s.Match(value, cases):
                found = self._sources(value, scope)
                results = [self._sources(result, {**scope, **_bound(pattern, found)}) for pattern, result in cases]
                return self._joined(expr.span, [found], results)
            case s.Lambda():
                return self._loop(expr, {}, scope)
            case _:
                certain, possible = _parts(expr)
                return self._joined(expr.span, self._all(certain, scope), self._all(possible, scope))

    def _all(self, values: Iterable[s.Expr], scope: Mapping[str, _Sources]) -> list[_Sources]:
        return [self._sources(value, scope) for value in values]

    def _call(self, call: s.Call, scope: Mapping[str, _Sources]) -> str:
        values = self._all((each for each in call.arguments if not isinstance(each, s.Lambda)), scope)
        items = self._joined(call.span, values)
        loops = [self._loop(each, items, scope) for each in call.arguments if isinstance(each, s.Lambda)]
        fallback = self._all([] if call.options.fallback is None else [call.options.fallback], scope)
        name = self._names[call]
        self._needs[name] = self._joined(call.span, [items, *loops], fallback)
        return name

    def _loop(self, each: s.Lambda, items: _Sources, scope: Mapping[str, _Sources]) -> _Sources:
        return self._sources(each.body, {**scope, **{name.text: items for name, _ in each.parameters}})

    def _joined(self, span: Span, certain: Iterable[_Sources], possible: Iterable[_Sources] = ()) -> _Sources:
        """What is needed for several values, of which the `possible` ones are not always computed."""
        joined = dict[str, bool]()
        for sources in certain:
            self._count += len(sources)
            for name, conditional in sources.items():
                joined[name] = joined.get(name, True) and conditional
        for sources in possible:
            self._count += len(sources)
            for name in sources:
                joined.setdefault(name, True)
        if self._count > MOST_LINKS:
            message = f"Type error: the graph of the program has more than {MOST_LINKS} links"
            raise Faulty(Fault(Code.TYPE_ERROR, message, span))
        return joined


def _bound(pattern: s.Pattern, found: _Sources) -> dict[str, _Sources]:
    return dict.fromkeys(pattern.fields, found) if isinstance(pattern, s.FieldsPattern) else {}


def _parts(expr: s.Expr) -> tuple[Sequence[s.Expr], Sequence[s.Expr]]:
    """The parts that are always computed, and those that are computed in some cases only."""
    parts = s.parts_of(expr)
    match expr:
        case s.Logic() | s.Coalesce() | s.If() | s.Branch():
            return parts[:1], parts[1:]
        case s.Guard():
            return parts[1:], parts[:1]
        case _:
            return parts, ()
