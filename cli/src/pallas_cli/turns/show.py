"""Shows turns: one with its timeline or as the tree of its trace, or two side by side.

The tree is drawn from the log without a collector, and its names are those of the spans. The log has the work of
workers only: spans of gateways and downstream servers are only in the collector.
"""

import json
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any

from pallas_bus.connection import Bus
from pallas_cli.costs import cost_text
from pallas_cli.costs import document_of as costs_of
from pallas_cli.plain_text import print_plain
from pallas_cli.turns.listing import find_turn, row_of
from pallas_contracts.costs import Spending
from pallas_turns.history.contents import arguments_of, content_of, with_content
from pallas_turns.history.replays import find_replays
from pallas_turns.history.spending import turn_spending
from pallas_turns.history.timeline import Entry, beginning, timeline, times_of
from pallas_turns.history.turns import TurnHistory


def timeline_lines(turn: TurnHistory) -> list[str]:
    """The timeline as text: seconds after the request, duration in seconds, description."""
    began = beginning(turn)
    lines = [f"{'after':>9} {'took':>9}"]
    for entry in timeline(turn):
        took = f"{entry.took:9.3f}" if entry.took is not None else " " * 9
        what = f"{entry.what}; taken over" if entry.taken_over else entry.what
        lines.append(f"{(entry.at - began).total_seconds():9.3f} {took}  {'  ' * entry.depth}{what}")
    return lines


async def show_turn(bus: Bus, turn_id: str, *, content: bool = False, as_json: bool) -> None:
    """Print one turn: its wait, attempts and outcome; with `content`, also request and answer.

    Raises:
        Refused: the log has no such turn.
    """
    turn = await find_turn(bus, turn_id)
    spent = await turn_spending(bus, turn.ref)
    if content:
        await with_content(bus, turn)
    replay = (await find_replays(bus, [turn])).get(turn_id)
    if as_json:
        spent_too = {**document_of(turn, replay, content=content), "spent": costs_of(spent)}
        print(json.dumps(spent_too, indent=2, ensure_ascii=False))
        return
    print_plain("\n".join(heading_of(turn, replay)))
    print_plain("\n".join(timeline_lines(turn)))
    print_plain(f"total {times_of(timeline(turn))}")
    if spent.calls:
        print_plain(spent_text(spent))
    if content:
        print_plain("\n".join(_content_lines(turn)))


def document_of(turn: TurnHistory, replay: TurnHistory | None = None, *, content: bool = False) -> dict[str, Any]:
    """The turn as plain values. Times are ISO 8601, durations seconds."""
    entries, began = timeline(turn), beginning(turn)
    until = turn.outcome.content_until if turn.outcome is not None else None
    document = {
        **row_of(turn, replay),
        "trace": turn.trace,
        "content_until": until.isoformat() if until is not None else None,
        "times": asdict(times_of(entries)),
        "timeline": [entry.as_json(began) for entry in entries],
    }
    if content:
        found = content_of(turn)
        texts = [{"agent": agent, "text": text} for agent, text in found.texts]
        document["content"] = {
            "asked": arguments_of(turn),
            "texts": texts,
            "answer": found.answer,
            "expired": found.expired,
        }
    return document


def spent_text(spent: Spending) -> str:
    """What a turn has spent, in all attempts and sub-agents."""
    cached = f" ({spent.cached_tokens:,} cached)" if spent.cached_tokens else ""
    tokens = f"{spent.input_tokens:,} tokens in{cached}, {spent.output_tokens:,} out"
    return f"spent {tokens}; cost: {cost_text(spent)}"


def heading_of(turn: TurnHistory, replay: TurnHistory | None = None) -> list[str]:
    """The heading of a turn: one or two lines. `replay` is its first replay, if that is known."""
    row = row_of(turn)
    lines = [f"{turn.turn_id} {turn.team}/{turn.agent} {turn.tool or '?'} by {turn.caller or '?'}: {turn.state}"]
    facts: list[str] = []
    if row["requested_at"]:
        facts.append(f"asked {row['requested_at'][:23].replace('T', ' ')} UTC")
    if turn.replay_of:
        facts.append(f"replay of {turn.replay_of}{f' by {turn.operator}' if turn.operator else ''}")
    if turn.conversation:
        facts.append(f"conversation {turn.conversation}")
    if turn.task:
        facts.append(f"task {turn.task}")
    if replay is not None:
        facts.append(f"executed again by {replay.turn_id}: {replay.state}")
    if turn.trace:
        facts.append(f"trace {turn.trace}")
    if turn.outcome is not None and turn.outcome.content_until is not None:
        facts.append(f"content kept until {turn.outcome.content_until.isoformat()[:19].replace('T', ' ')} UTC")
    return [*lines, f"  {', '.join(facts)}"] if facts else lines


def _content_lines(turn: TurnHistory) -> list[str]:
    found, asked = content_of(turn), arguments_of(turn)
    lines = ["", "asked:", "(no longer stored)" if asked is None else json.dumps(asked, indent=2, ensure_ascii=False)]
    for agent, text in found.texts:
        lines += ["", f"{agent}:", text]
    return [*lines, "", "answer:", found.text]


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
    print_plain("\n".join((*heading_of(turn), *tree_lines(turn))))


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


def tree_lines(turn: TurnHistory) -> list[str]:
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


_NARROWEST = 50
"""Minimum columns of a side. In a narrower terminal one turn is printed above the other."""

_INDENT = " " * 21
_VERDICTS = {
    True: "The answers are equal.",
    False: "The answers differ.",
    None: "The answers cannot be compared: one of them is no longer stored.",
}


def comparison_of(old: TurnHistory, new: TurnHistory) -> dict[str, Any]:
    """Both turns as plain values; `equal` is None if one of the answers is no longer stored."""
    return {
        "equal": content_of(old).equals(content_of(new)),
        "old": document_of(old, content=True),
        "new": document_of(new, content=True),
    }


def lines_side_by_side(old: TurnHistory, new: TurnHistory, width: int | None = None) -> list[str]:
    """Both answers and timelines as text, side by side if they fit into `width` columns (default: the terminal's)."""
    side = ((width or shutil.get_terminal_size().columns) - 3) // 2
    pairs = list(zip(_parts(old), _parts(new), strict=True))
    lines: list[str] = []
    if side < _NARROWEST:
        for number, name in enumerate(("old", "new")):
            for part in (pair[number] for pair in pairs):
                lines += [f"{name}: {part[0]}", *part[1:], ""]
    else:
        for left, right in pairs:
            both = zip_longest(_wrapped(left, side), _wrapped(right, side), fillvalue="")
            lines += [f"{one:<{side}} | {other}".rstrip() for one, other in both]
            lines.append("")
    return [*lines, _VERDICTS[content_of(old).equals(content_of(new))]]


def _parts(turn: TurnHistory) -> tuple[list[str], list[str], list[str]]:
    """Heading, answer and timeline of a turn; each begins with its title."""
    times = times_of(timeline(turn))
    heading = f"{turn.turn_id} {turn.team}/{turn.agent}: {turn.state}"
    return [heading], ["answer", *content_of(turn).text.splitlines()], [f"timeline, {times}", *timeline_lines(turn)]


def _wrapped(lines: list[str], width: int) -> Iterator[str]:
    for line in lines:
        yield from textwrap.wrap(
            line,
            width,
            drop_whitespace=False,
            replace_whitespace=False,
            subsequent_indent=_INDENT if line[:1] == " " else "",
        ) or [""]
