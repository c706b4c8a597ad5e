"""Where the nodes of a graph stand in a picture: in columns, each to the right of what it needs.

The usual three steps (Sugiyama): columns by the longest path, rows by the mean of the neighbours, then heights. A long
edge has a bend in each column that it crosses, between the nodes there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise

from pallas_cst.dag import Graph

MOST_BENDS = 5_000
"""The most bends in a picture. Edges that would have more are drawn straight: they would take too long to lay out."""
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """The points of a picture: the nodes in their order, then the bends of edges.

    `column` and `middle` (the height, from 0 down) are by the number of a point. `paths` has for each edge the numbers
    of its points, from its source to its target.
    """

    column: Sequence[int]
    middle: Sequence[float]
    paths: Sequence[Sequence[int]]


def laid_out(graph: Graph, heights: Sequence[float], *, gap: float) -> Layout:
    """Place the nodes, which have these heights. The middles of two in a column are as far apart as they need."""
    points = _points(graph)
    columns = list[list[int]]([] for _ in range(max(points.column, default=-1) + 1))
    for point, column in enumerate(points.column):
        columns[column].append(point)
    _order(columns, points)
    halves = [height / 2 for height in heights] + [0.0] * (len(points.column) - len(heights))
    return Layout(points.column, _middles(columns, points, halves, gap), points.paths)


@dataclass
class _Points:
    """The points, and the neighbours of each: those in the column to its left, and to its right."""

    column: list[int]
    paths: list[list[int]] = field(default_factory=list[list[int]])

    def __post_init__(self) -> None:
        self.left: list[list[int]] = [[] for _ in self.column]
        self.right: list[list[int]] = [[] for _ in self.column]

    def add_path(self, source: int, target: int, *, bent: bool) -> None:
        bends = range(self.column[source] + 1, self.column[target]) if bent else range(0)
        first = len(self.column)
        self.column += bends
        self.left += ([] for _ in bends)
        self.right += ([] for _ in bends)
        path = [source, *range(first, len(self.column)), target]
        for a, b in pairwise(path):
            self.right[a].append(b)
            self.left[b].append(a)
        self.paths.append(path)


def _points(graph: Graph) -> _Points:
    numbers = {node.name: number for number, node in enumerate(graph.nodes)}
    edges = [(numbers[edge.source], numbers[edge.target]) for edge in graph.edges]
    points = _Points(_columns(len(numbers), edges))
    bends = 0
    for source, target in edges:
        more = points.column[target] - points.column[source] - 1
        bent = bends + more <= MOST_BENDS
        bends += more if bent else 0
        points.add_path(source, target, bent=bent)
    return points


def _columns(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """One more than the last of what a node needs. A node that needs nothing is next to the first that needs it."""
    sources, targets = [list[int]() for _ in range(count)], [list[int]() for _ in range(count)]
    for source, target in edges:
        sources[target].append(source)
        targets[source].append(target)
    column = [0] * count
    for node in TopologicalSorter(dict(enumerate(sources))).static_order():
        column[node] = 1 + max((column[each] for each in sources[node]), default=-1)
    for node in range(count):
        if not sources[node] and targets[node]:
            column[node] = min(column[each] for each in targets[node]) - 1
    return column


def _order(columns: list[list[int]], points: _Points) -> None:
    """Sort each column by the mean row of the neighbours, so that few edges cross."""
    row = [0.0] * len(points.column)
    for column in columns:
        _number(column, row)
    for _ in range(_ROUNDS):
        for pass_, neighbours in ((columns, points.left), (reversed(columns), points.right)):
            for column in pass_:
                wanted = {point: _mean(row, neighbours[point], row[point]) for point in column}
                column.sort(key=wanted.__getitem__)
                _number(column, row)


def _number(column: Sequence[int], row: list[float]) -> None:
    """Set the rows of a column, from 0 to 1, because columns of different lengths are compared."""
    for number, point in enumerate(column):
        row[point] = (number + 0.5) / len(column)


def _mean(of: Sequence[float], points: Sequence[int], default: float) -> float:
    return sum(of[point] for point in points) / len(points) if points else default


def _middles(columns: list[list[int]], points: _Points, halves: Sequence[float], gap: float) -> list[float]:
    middle = [0.0] * len(points.column)
    for _ in range(_ROUNDS):
        for pass_, neighbours in ((columns, points.left), (reversed(columns), points.right)):
            for column in pass_:
                wanted = [_mean(middle, neighbours[point], middle[point]) for point in column]
                needed = [halves[a] + halves[b] + gap for a, b in pairwise(column)]
                for point, place in zip(column, _apart(wanted, needed), strict=True):
                    middle[point] = place
    top = min((place - half for place, half in zip(middle, halves, strict=True)), default=0.0)
    return [place - top for place in middle]


def _apart(wanted: Sequence[float], needed: Sequence[float]) -> list[float]:
    """Places near those wanted, in the same order and at least `needed` apart: the mean of the lowest and highest."""
    down, up = list(wanted), list(wanted)
    for number, distance in enumerate(needed):
        down[number + 1] = max(down[number + 1], down[number] + distance)
    for number in reversed(range(len(needed))):
        up[number] = min(up[number], up[number + 1] - needed[number])
    return [(a + b) / 2 for a, b in zip(down, up, strict=True)]
