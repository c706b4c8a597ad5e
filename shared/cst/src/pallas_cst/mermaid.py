"""Draw the graph of a program as a Mermaid flowchart.

A page that shows it may have to allow more: Mermaid's own limits are 500 edges and 50,000 characters.
"""

import re
from collections.abc import Iterator, Mapping

from pallas_cst.dag import Graph, Kind
from pallas_cst.labels import State, lines_of, states_of

_WIDTH = 60
_SHAPES: Mapping[Kind, tuple[str, str]] = {"input": ("([", "])"), "module": ("[", "]"), "output": ("[[", "]]")}
_COLOURS: Mapping[State, str] = {
    "running": "fill:#ddf4ff,stroke:#0969da,color:#0a3069",
    "done": "fill:#dafbe1,stroke:#1a7f37,color:#033a16",
    "failed": "fill:#ffebe9,stroke:#cf222e,color:#660018",
    "skipped": "fill:#f6f8fa,stroke:#818b98,color:#59636e,stroke-dasharray:4 3",
}
_TO_ESCAPE = re.compile(r"[^A-Za-z0-9 _.,-]")
"""All that could mean something to Mermaid, to its Markdown or to HTML. The colon is escaped too: Mermaid mistakes a
line with `style`, a colon and an entity for a style, and takes a semicolon away."""


def mermaid(graph: Graph, states: Mapping[str, State] | None = None) -> str:
    """The graph as text that starts with `flowchart LR`; conditional edges are dotted.

    `states` colours the calls of an execution, by their places (`Calling.place`).
    """
    return "".join(f"{line}\n" for line in _lines(graph, states_of(graph, states or {})))


def _lines(graph: Graph, states: Mapping[str, State]) -> Iterator[str]:
    names = {node.name: f"n{number}" for number, node in enumerate(graph.nodes)}
    yield "flowchart LR"
    for node in graph.nodes:
        opening, closing = _SHAPES[node.kind]
        label = "<br/>".join(map(_escaped, lines_of(node, states.get(node.name), _WIDTH)))
        yield f'  {names[node.name]}{opening}"{label}"{closing}'
    for edge in graph.edges:
        yield f"  {names[edge.source]} {'-.->' if edge.conditional else '-->'} {names[edge.target]}"
    for state, colours in _COLOURS.items():
        if in_state := [names[name] for name, its_state in states.items() if its_state == state]:
            yield f"  classDef {state} {colours}"
            yield f"  class {','.join(in_state)} {state}"


def _escaped(text: str) -> str:
    return _TO_ESCAPE.sub(lambda found: f"#{ord(found[0])};", text)
