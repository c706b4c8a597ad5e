"""Prints one turn with its timeline and, on request, its content."""

import json
from dataclasses import asdict
from typing import Any

from pallas_bus.history.contents import arguments_of, content_of, with_content
from pallas_bus.history.replays import find_replays
from pallas_bus.history.spending import turn_spending
from pallas_bus.history.timeline import beginning, timeline, times_of
from pallas_bus.history.turns import TurnHistory
from pallas_bus.transport.connection import Bus
from pallas_cli.costs.report import cost_text
from pallas_cli.costs.report import document_of as costs_of
from pallas_cli.plain_text import print_plain
from pallas_cli.turns.listing import find_turn, row_of
from pallas_cli.turns.timeline import lines_of
from pallas_contracts.costs import Spending


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
    print_plain("\n".join(lines_of(turn)))
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
