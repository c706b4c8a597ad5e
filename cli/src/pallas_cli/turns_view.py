"""Turns that are over, run or wait, from the log: a list of them, or the timeline of one."""

import json
from datetime import UTC, datetime
from typing import Any

from pallas_bus.connection import Bus
from pallas_bus.turn_claims import Address, request_cancel
from pallas_bus.turn_history import TurnHistory, read_turn, read_turns
from pallas_cli.moments import moment_of
from pallas_cli.plain_table import print_table
from pallas_cli.refused import Refused
from pallas_cli.turns_tail import text_of
from pallas_contracts.turns import AnyEvent


def row_of(turn: TurnHistory) -> dict[str, Any]:
    """One turn of a list, as plain values; times are ISO 8601, spans seconds."""
    ended = turn.outcome.ended_at if turn.outcome else None
    asked = turn.requested_at
    return {
        "turn": turn.turn_id,
        "team": turn.team,
        "agent": turn.agent,
        "tool": turn.tool,
        "caller": turn.caller,
        "state": turn.state,
        "code": turn.outcome.code if turn.outcome else None,
        "attempts": len(turn.attempts),
        "requested_at": asked.isoformat() if asked else None,
        "seconds": (ended - asked).total_seconds() if ended and asked else None,
    }


async def show_turns(
    bus: Bus,
    *,
    since: str,
    team: str | None,
    agent: str | None,
    state: str | None,
    caller: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Print the latest turns that match, the newest last."""
    turns = await read_turns(bus, since=moment_of(since), team=team, agent=agent)
    rows = [
        row
        for row in map(row_of, turns)
        if state in (None, row["state"]) and (caller is None or caller in (row["caller"] or ""))
    ][-limit:]
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print(f"No turns since {since}.")
    else:
        headers = ("turn", "agent", "caller", "requested", "state", "attempts", "took")
        print_table(headers, map(_cells, rows))


def _cells(row: dict[str, Any]) -> list[str]:
    state = f"{row['state']} ({row['code']})" if row["code"] not in (None, row["state"]) else row["state"]
    took = f"{row['seconds']:.3f} s" if row["seconds"] is not None else "-"
    asked = (row["requested_at"] or "-")[:19].replace("T", " ")
    name = f"{row['team']}/{row['agent']}"
    return [row["turn"], name, row["caller"] or "-", asked, state, str(row["attempts"]), took]


async def show_turn(bus: Bus, turn_id: str, *, as_json: bool) -> None:
    """Print one turn's timeline: how long it waited, what each attempt did and when, how it ended.

    Raises:
        Refused: the log has no such turn.
    """
    turn = await _turn(bus, turn_id)
    if as_json:
        print(json.dumps({**row_of(turn), "timeline": _timeline(turn)}, indent=2))
        return
    row = row_of(turn)
    print(f"{turn.turn_id} {turn.team}/{turn.agent} {turn.tool or '?'} by {turn.caller or '?'}: {row['state']}")
    for entry in _timeline(turn):
        attempt = f"#{entry['attempt']}" if entry["attempt"] else "  "
        print(f"  {entry['after']:9.3f} s {attempt} {entry['what']}")


def _timeline(turn: TurnHistory) -> list[dict[str, Any]]:
    """What happened, with seconds after the request. Content is not shown, only that there is some."""
    began = turn.requested_at or datetime.fromtimestamp(0, UTC)
    entries: list[tuple[datetime, int, str]] = []
    for number, attempt in turn.attempts.items():
        entries.append((attempt.claim.at, number, f"taken by {attempt.claim.worker}"))
        entries += [(_moment(event), number, text_of(event)) for event in attempt.in_order()]
    if turn.cancel is not None:
        entries.append((turn.cancel.at, 0, f"cancel: {turn.cancel.reason}"))
    if turn.outcome is not None:
        code = f" ({turn.outcome.code})" if turn.outcome.code not in (None, turn.outcome.status) else ""
        entries.append((turn.outcome.ended_at, turn.outcome.attempt, f"{turn.outcome.status}{code}"))
    # Events have their time in milliseconds: within one, they stay in the order in which they were added.
    entries.sort(key=lambda entry: int(entry[0].timestamp() * 1000))
    return [
        {"at": moment.isoformat(), "after": (moment - began).total_seconds(), "attempt": attempt, "what": what}
        for moment, attempt, what in entries
    ]


def _moment(event: AnyEvent) -> datetime:
    return datetime.fromtimestamp(event.at / 1000, UTC)


async def cancel(bus: Bus, turn_id: str, *, as_json: bool) -> None:
    """Cancel a turn that waits or runs.

    Raises:
        Refused: the log has no such turn, or it is over.
    """
    turn = await _turn(bus, turn_id)
    if turn.outcome is not None:
        raise Refused(f"turn {turn_id} is over: {turn.outcome.status}")
    first = await request_cancel(bus, Address(turn.team, turn.agent, turn.turn_id), "cancelled by an operator")
    answer = "cancelled" if first else "had been cancelled already"
    print(json.dumps({"turn": turn_id, "cancelled": True, "first": first}) if as_json else f"Turn {turn_id} {answer}.")


async def _turn(bus: Bus, turn_id: str) -> TurnHistory:
    turn = await read_turn(bus, turn_id)
    if turn is None:
        raise Refused(f"the log has no turn {turn_id!r}")
    return turn
