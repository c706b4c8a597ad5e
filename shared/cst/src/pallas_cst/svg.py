"""Draw the graph of a program as an SVG picture: without scripts, without anything from outside, light and dark."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate

from pallas_cst.dag import Edge, Graph, Node
from pallas_cst.labels import State, cut, full_text, lines_of, states_of, width_of
from pallas_cst.layout import Layout, laid_out

_WIDTH, _TITLE_WIDTH = 32, 500
"""The columns of text in a box, and in what is shown where the pointer rests."""
_CHAR, _LINE, _PADDING = 7.3, 16, 10
_BETWEEN_COLUMNS, _BETWEEN_ROWS, _MARGIN = 56, 14, 16
_STYLE = """\
.pallas-dag { background: #fff; font: 12px ui-monospace, Menlo, Consolas, monospace }
.pallas-dag text { fill: #1f2328 }
.pallas-dag .more { fill: #59636e; font-size: 11px }
.pallas-dag rect { fill: #f6f8fa; stroke: #818b98 }
.pallas-dag .input rect { fill: #ddf4ff; stroke: #54aeff }
.pallas-dag .output rect { fill: #fbefff; stroke: #c297ff }
.pallas-dag path { fill: none; stroke: #818b98; stroke-width: 1.2 }
.pallas-dag .arrow { fill: #818b98; stroke: none }
.pallas-dag .conditional { stroke-dasharray: 4 4 }
.pallas-dag .running rect { fill: #fff8c5; stroke: #9a6700; stroke-width: 2 }
.pallas-dag .done rect { fill: #dafbe1; stroke: #1a7f37 }
.pallas-dag .failed rect { fill: #ffebe9; stroke: #cf222e; stroke-width: 2 }
.pallas-dag .skipped { opacity: 0.55 }
@media (prefers-color-scheme: dark) {
.pallas-dag { background: #0d1117 }
.pallas-dag text { fill: #f0f6fc }
.pallas-dag .more { fill: #9198a1 }
.pallas-dag rect { fill: #212830; stroke: #656c76 }
.pallas-dag .input rect { fill: #0c2d6b; stroke: #1f6feb }
.pallas-dag .output rect { fill: #3c1e70; stroke: #8957e5 }
.pallas-dag path { stroke: #656c76 }
.pallas-dag .arrow { fill: #656c76 }
.pallas-dag .running rect { fill: #4b2900; stroke: #d29922 }
.pallas-dag .done rect { fill: #04260f; stroke: #2ea043 }
.pallas-dag .failed rect { fill: #490202; stroke: #f85149 }
}"""


def svg(graph: Graph, title: str = "Pipeline", states: Mapping[str, State] | None = None) -> str:
    """The graph as a picture with a title; conditional edges are dashed, and each box says more under the pointer.

    `states` colours the calls of an execution, by their places (`Calling.place`).
    """
    return "\n".join(_Picture(graph, states_of(graph, states or {})).elements(cut(title, _TITLE_WIDTH))) + "\n"


class _Picture:
    def __init__(self, graph: Graph, states: Mapping[str, State]) -> None:
        self._graph = graph
        self._states = states
        self._lines = [lines_of(node, states.get(node.name), _WIDTH) for node in graph.nodes]
        self._heights = [len(lines) * _LINE + _PADDING for lines in self._lines]
        self._layout = laid_out(graph, self._heights, gap=_BETWEEN_ROWS)
        self._widths = _widths(self._layout, self._lines)
        self._lefts = list(accumulate((width + _BETWEEN_COLUMNS for width in self._widths), initial=_MARGIN))

    def elements(self, title: str) -> Iterator[str]:
        nodes, edges = self._graph.nodes, self._graph.edges
        bottoms = [self._middle(number) + height / 2 for number, height in enumerate(self._heights)]
        width = max(self._lefts[-1] - _BETWEEN_COLUMNS, 0) + _MARGIN
        height = max([*bottoms, *map(self._middle, range(len(self._layout.middle)))], default=0) + _MARGIN
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="pallas-dag" role="img" '
            f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">'
        )
        yield f"<title>{escape(title)}</title>"
        counts = [sum(node.kind == kind for node in nodes) for kind in ("input", "module", "output")]
        yield "<desc>Inputs: {}, calls: {}, outputs: {}.</desc>".format(*counts)
        yield f"<style>\n{_STYLE}\n</style>"
        for edge, path in zip(edges, self._layout.paths, strict=True):
            yield from self._edge(edge, path)
        for number, node in enumerate(nodes):
            yield from self._box(number, node)
        yield "</svg>"

    def _middle(self, point: int) -> float:
        return self._layout.middle[point] + _MARGIN

    def _left(self, point: int) -> float:
        return self._lefts[self._layout.column[point]]

    def _right(self, point: int) -> float:
        return self._left(point) + self._widths[self._layout.column[point]]

    def _box(self, number: int, node: Node) -> Iterator[str]:
        state = self._states.get(node.name)
        left, width, height = self._left(number), self._right(number) - self._left(number), self._heights[number]
        top = self._middle(number) - height / 2
        rounded = 3 if node.kind == "module" else height / 2
        yield f'<g class="{node.kind}{f" {state}" if state else ""}">'
        yield f"<title>{escape(full_text(node, state, _TITLE_WIDTH))}</title>"
        yield f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height}" rx="{rounded}"/>'
        for row, line in enumerate(self._lines[number]):
            kind = ' class="more"' if row else ""
            x, y = left + width / 2, top + _PADDING / 2 + (row + 0.75) * _LINE
            yield f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(line)}</text>'
        yield "</g>"

    def _edge(self, edge: Edge, path: Sequence[int]) -> Iterator[str]:
        """A curve from the right of a box to the left of another, level where it passes other boxes, and its tip."""
        x, y = self._right(path[0]), self._middle(path[0])
        line = f"M{x:.1f} {y:.1f}"
        for point in path[1:]:
            to_x, to_y = self._left(point), self._middle(point)
            half = (x + to_x) / 2
            line += f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
            x, y = self._right(point), to_y
            if point != path[-1]:
                line += f"H{x:.1f}"
        tip = f"M{self._left(path[-1]):.1f} {y:.1f}l-7 -3.5v7z"
        yield f'<path{' class="conditional"' if edge.conditional else ""} d="{line}"/><path class="arrow" d="{tip}"/>'


def _widths(layout: Layout, lines: Sequence[Sequence[str]]) -> list[float]:
    """The widths of the columns, by their longest lines."""
    widths = [0.0] * (max(layout.column, default=-1) + 1)
    for column, texts in zip(layout.column, lines, strict=False):
        widths[column] = max(widths[column], max(map(width_of, texts)) * _CHAR + 2 * _PADDING)
    return widths
