"""What pictures of a graph say of a node. The text has no control characters, and is cut to a width."""

from collections.abc import Mapping
from typing import Literal
from unicodedata import east_asian_width

from pallas_cst import types as t
from pallas_cst.dag import Graph, Node

type State = Literal["running", "done", "failed", "skipped"]
"""How far a call has come in an execution."""

SIGNS: Mapping[State, str] = {"failed": "✗", "running": "…", "done": "✓", "skipped": "○"}
"""A sign for each state, since colours alone do not tell everybody; the worst state is the first."""
_LARGE = 200
_UNPRINTABLE = "\ufffd"


def states_of(graph: Graph, states: Mapping[str, State]) -> dict[str, State]:
    """The state of each node, by name, from those of calls by `Calling.place`.

    A call in a lambda has one place for each item (`7.1`, `7.2`); its node has the worst of their states.
    """
    worst, order = dict[str, State](), list(SIGNS)
    for place, state in states.items():
        number = place.partition(".")[0]
        worst[number] = min(state, worst.get(number, state), key=order.index)
    return {node.name: worst[node.place] for node in graph.nodes if node.place in worst}


def lines_of(node: Node, state: State | None, width: int) -> list[str]:
    """A label of one or two lines: the name and the sign of the state, then the type or the options."""
    sign = f" {SIGNS[state]}" if state else ""
    more = node.options if node.kind == "module" else short_type(node.type)
    return [cut(node.label, width - len(sign)) + sign, *([cut(more, width)] if more else ())]


def full_text(node: Node, state: State | None, width: int) -> str:
    """All that is known of a node, in one line."""
    options = f" with {node.options}" if node.options else ""
    progress = f" ({state})" if state else ""
    return cut(f"{node.kind} {node.label}: {short_type(node.type)}{options}{progress}", width)


def short_type(kind: t.Type) -> str:
    """A type as text, if it is not so large that the text would take long to make."""
    return str(kind) if kind.size <= _LARGE else "…"


def width_of(text: str) -> int:
    """The columns that a text takes in a font of fixed width."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def cut(text: str, width: int) -> str:
    """The text in one line of at most `width` columns; what is too long ends with an ellipsis."""
    clean = "".join(
        char if char.isprintable() else " " if char.isspace() else _UNPRINTABLE for char in text[: width + 1]
    )
    if width_of(clean) <= width:
        return clean
    while width_of(clean) >= width:
        clean = clean[:-1]
    return f"{clean}…"
