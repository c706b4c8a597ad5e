"""One turn as the tree of its trace, drawn from the log without a collector. Names are those of the spans.

The log has the work of workers only. Spans of gateways and downstream servers are only in the collector.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pallas_bus.history.timeline import Entry, beginning, timeline
from pallas_bus.history.turns import TurnHistory
from pallas_bus.transport.connection import Bus
from pallas_cli.plain_text import print_plain
from pallas_cli.turns.listing import find_turn
from pallas_cli.turns.show import heading_of

_WIDTH = 30
_BRANCH, _LAST, _PAST, _NOTHING = "├─ ", "└─ ", "│  ", "   "


@dataclass
class Node:
    """A span. `ended` is None if it has not ended."""

    name: str
    began: datetime
    ended: datetime | None = None
    attempt: int = 0
    note: str = ""
    failed: bool = False
    children: "list[Node]" = field(default_factory=list["Node"])

    @property
    def took(self) -> float | None:
        """Seconds."""
        return (self.ended - self.began).total_seconds() if self.ended is not None else None

    def as_json(self, since: datetime) -> dict[str, Any]:
        """The span as plain values; `after` and `took` are seconds."""
        return {
            "name": self.name,
            "after": (self.began - since).total_seconds(),
            "took": self.took,
            "attempt": self.attempt,
            "note": self.note,
            "failed": self.failed,
            "children": [child.as_json(since) for child in self.children],
        }


async def trace_turn(bus: Bus, turn_id: str, *, as_json: bool) -> None:
    """Print the tree of one turn.

    Raises:
        Refused: the log has no such turn.
    """
    turn = await find_turn(bus, turn_id)
    if as_json:
        tree = [node.as_json(beginning(turn)) for node in tree_of(turn)]
        known = {"turn": turn.turn_id, "team": turn.team, "agent": turn.agent, "state": turn.state, "trace": turn.trace}
        print(json.dumps({**known, "spans": tree}, indent=2, ensure_ascii=False))
        return
    print_plain("\n".join((*heading_of(turn), *lines_of(turn))))


def tree_of(turn: TurnHistory) -> list[Node]:
    """The root spans of a turn: its wait in the queue, and its attempts."""
    roots: list[Node] = []
    nodes: dict[int, Node] = {}
    for entry in timeline(turn):
        if entry.span is None:
            continue
        siblings = nodes[id(entry.within)].children if entry.within is not None else roots
        before = siblings[-1] if siblings else None
        if entry.kind == "step" and before is not None and before.name == entry.span:
            nodes[id(entry)] = before  # all steps of one run of an agent are one span
            before.ended = _end(entry)
            continue
        note = f"{entry.note} taken over".strip() if entry.taken_over else entry.note
        node = Node(entry.span, entry.at, _end(entry), entry.attempt, note, entry.failed)
        nodes[id(entry)] = node
        siblings.append(node)
    return roots


def _end(entry: Entry) -> datetime | None:
    return entry.at + timedelta(seconds=entry.took) if entry.took is not None else None


def lines_of(turn: TurnHistory) -> list[str]:
    """The tree as text: seconds after the request, duration in seconds, a time bar, name and note."""
    began, roots = beginning(turn), tree_of(turn)
    moments = [moment for root in roots for moment in (root.began, root.ended) if moment is not None]
    whole = max(((moment - began).total_seconds() for moment in moments), default=0.0) or 1.0
    lines = [f"{'after':>9} {'took':>9}"]
    for stem, node in _walk(roots, ""):
        after = (node.began - began).total_seconds()
        took = f"{node.took:9.3f}" if node.took is not None else " " * 9
        bar = _bar(after / whole, (after + node.took) / whole if node.took is not None else 1.0)
        lines.append(f"{after:9.3f} {took} {bar} {stem}{node.name} {node.note}".rstrip())
    return lines


def _walk(nodes: list[Node], stem: str) -> Iterator[tuple[str, Node]]:
    for node in nodes:
        last = node is nodes[-1]
        yield stem + (_LAST if last else _BRANCH), node
        yield from _walk(node.children, stem + (_NOTHING if last else _PAST))


def _bar(begin: float, end: float) -> str:
    """A bar of the time from `begin` to `end`, as fractions of the turn."""
    first = min(round(begin * _WIDTH), _WIDTH - 1)
    length = max(1, round(end * _WIDTH) - first)
    return f"|{' ' * first}{'=' * length}".ljust(_WIDTH + 1)[: _WIDTH + 1] + "|"
