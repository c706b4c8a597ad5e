"""Finds turns: by an id, by a filter, or as the selection of a command; and lists them."""

import json
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pallas_bus.connection import Bus
from pallas_bus.errors import for_each
from pallas_cli.costs import cost_text, document_of
from pallas_cli.kept_secrets import find_log_key
from pallas_cli.moments import span_of
from pallas_cli.options import say_more
from pallas_cli.plain_text import print_plain, print_table
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.costs import Spending
from pallas_contracts.errors import Rejected
from pallas_contracts.ids import check_token
from pallas_turns.history.replays import find_replays
from pallas_turns.history.spending import turn_spending
from pallas_turns.history.turn_list import TurnFilter, find_turns, place_of, turns_by_id
from pallas_turns.history.turns import STATES, State, TurnHistory, read_turn

_AT_ONCE = 32
"""Turns whose events are read at once."""


def filter_of(
    *,
    team: str | None = None,
    agent: str | None = None,
    caller: str | None = None,
    state: str | None = None,
    conversation: str | None = None,
    task: str | None = None,
    since: str | None = None,
    until: str | None = None,
    data: Path,
) -> TurnFilter:
    """The filter of these options. `conversation` and `task` are the caller's ids; `data` is the data folder, which has
    the log key.

    Raises:
        Refused: an option is invalid; the message names it.
    """
    begin, end = span_of(since, until)
    try:
        for name, value in (("team", team), ("agent", agent)):
            if value is not None:
                check_token(value, f"--{name}")
    except Rejected as error:
        raise WrongUsage(error.message) from error
    known: dict[str, State] = {each: each for each in STATES}
    if state is not None and state not in known:
        raise WrongUsage(f"--state {state!r} is not one of {', '.join(STATES)}")
    return TurnFilter(
        team,
        agent,
        caller,
        known.get(state or ""),
        conversation=find_log_key(data).conversation(conversation) if conversation is not None else None,
        task=find_log_key(data).task(task) if task is not None else None,
        since=begin,
        until=end,
    )


def row_of(turn: TurnHistory, replay: TurnHistory | None = None) -> dict[str, Any]:
    """One turn as plain values; times are ISO 8601, durations seconds. `replay` is its first replay."""
    ended = turn.outcome.ended_at if turn.outcome else None
    asked = turn.requested_at
    return {
        "turn": turn.turn_id,
        "team": turn.team,
        "agent": turn.agent,
        "tool": turn.tool,
        "caller": turn.caller,
        "conversation": turn.conversation,
        "task": turn.task,
        "replay_of": turn.replay_of,
        "operator": turn.operator,
        "replay": {"turn": replay.turn_id, "state": replay.state} if replay is not None else None,
        "state": turn.state,
        "code": turn.outcome.code if turn.outcome else None,
        "attempts": max(turn.attempts, default=0),
        "requested_at": asked.isoformat() if asked else None,
        "seconds": (ended - asked).total_seconds() if ended and asked else None,
    }


async def show_turns(bus: Bus, *, wanted: TurnFilter, limit: int, after: str | None = None, as_json: bool) -> None:
    """Print the latest turns that match, newest last, and which of them were executed again.

    `after` is the first turn of the list before: those that were requested before it are printed.
    """
    if after is not None:
        wanted = replace(wanted, before=place_of(await find_turn(bus, after)))
    latest = await find_turns(bus, wanted, limit=limit + 1)
    turns = latest[-limit:]
    found = await find_replays(bus, turns)
    spent = await for_each(turns, lambda turn: turn_spending(bus, turn.ref), at_once=_AT_ONCE)
    rows = [row_of(turn, found.get(turn.turn_id)) for turn in turns]
    if len(latest) > limit:
        say_more(turns[0].turn_id)
    if as_json:
        print(
            json.dumps([{**row, "spent": document_of(each)} for row, each in zip(rows, spent, strict=True)], indent=2)
        )
    elif not rows:
        print_plain("No turns found.")
    else:
        headers = ["turn", "agent", "caller", "requested", "state", "attempts", "took", "tokens", "cost"]
        more = [name for name in ("replay of", "replay") if any(row[name.replace(" ", "_")] for row in rows)]
        print_table([*headers, *more], (_cells(row, each, more) for row, each in zip(rows, spent, strict=True)))


def _cells(row: dict[str, Any], spent: Spending, more: list[str]) -> list[str]:
    state = f"{row['state']} ({row['code']})" if row["code"] not in (None, row["state"]) else row["state"]
    took = f"{row['seconds']:.3f} s" if row["seconds"] is not None else "-"
    asked = (row["requested_at"] or "-")[:19].replace("T", " ")
    name = f"{row['team']}/{row['agent']}"
    cells = [row["turn"], name, row["caller"] or "-", asked, state, str(row["attempts"]), took]
    cells += [f"{spent.tokens:,}", cost_text(spent)] if spent.calls else ["-", "-"]
    replay = f"{row['replay']['turn']} {row['replay']['state']}" if row["replay"] else ""
    others = {"replay of": row["replay_of"] or "", "replay": replay}
    return [*cells, *(others[name] for name in more)]


async def find_turn(bus: Bus, turn_id: str) -> TurnHistory:
    """One turn, with everything that the log stores of it.

    Raises:
        Refused: the log has no such turn.
    """
    try:
        turn = await read_turn(bus, turn_id)
    except Rejected as error:
        raise WrongUsage(error.message) from error
    if turn is None:
        raise Refused(f"the log has no turn {turn_id!r}", word="not_found")
    return turn


_MOST = 8
"""Names in one line."""


def turns_text(count: int) -> str:
    """`1 turn`, `2 turns`."""
    return f"{count} turn{'s' if count != 1 else ''}"


def whose_lines(turns: Sequence[TurnHistory]) -> list[str]:
    """How many turns each agent and each caller has; no lines without turns."""
    if not turns:
        return []
    agents = counts_text(f"{turn.team}/{turn.agent}" for turn in turns)
    return [f"  of: {agents}", f"  for: {counts_text(turn.caller or 'unknown' for turn in turns)}"]


def counts_text(names: Iterable[str]) -> str:
    """How often each name is there, the most frequent first."""
    counted = Counter(names).most_common()
    shown = ", ".join(f"{name} {count}" for name, count in counted[:_MOST])
    return shown + (f" and {len(counted) - _MOST} more" if len(counted) > _MOST else "")


ENDED: tuple[State, ...] = ("completed", "failed", "cancelled", "input_required")
UNDER_WAY: tuple[State, ...] = ("waiting", "running")


@dataclass(frozen=True, slots=True)
class Selection:
    """Turns by their ids, or else by a filter."""

    ids: tuple[str, ...] = ()
    wanted: TurnFilter = field(default_factory=TurnFilter)


def selection_of(ids: Collection[str], options: Mapping[str, str | None], *, data: Path) -> Selection:
    """The selection of a command line. `options` are those of `filter_of`.

    Raises:
        Refused: neither or both of ids and options are given, or one is invalid or empty.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if empty := [f"--{name} is empty" for name, value in given.items() if not value]:
        raise Refused(*empty)  # a variable that is not set in a script must not match everything
    if bool(ids) == bool(given):
        also = f", not {', '.join(f'--{name}' for name in given)} as well" if ids else ""
        raise WrongUsage(f"name turns, or pass a filter such as --state, --agent or --since{also}")
    if ids:
        return Selection(tuple(dict.fromkeys(ids)))
    return Selection(wanted=filter_of(**given, data=data))


def check_model(model: str | None) -> None:
    """Check the model of a replay before anything is queued: each turn is replayed once, and would fail with this one.

    Raises:
        WrongUsage: it is not the name of a model.
    """
    from pallas_teams.providers import PROVIDERS, parse_model

    if model is not None and parse_model(model) is None:
        raise WrongUsage(f"--model {model!r} is not 'offline' or PROVIDER.NAME of a provider: {', '.join(PROVIDERS)}")


async def select(bus: Bus, selection: Selection, states: tuple[State, ...]) -> list[TurnHistory]:
    """The selected turns, in the order of their requests. A filter finds turns in one of `states`; names find all.

    Raises:
        Refused: a named turn is not in the log, or the filter's state is not one of `states`.
    """
    if selection.ids:
        return await _named(bus, selection.ids)
    state = selection.wanted.state
    if state is not None and state not in states:
        raise WrongUsage(f"--state {state} does not fit: it must be one of {', '.join(states)}")
    if state is not None or states != UNDER_WAY:
        found = await find_turns(bus, selection.wanted, limit=sys.maxsize)
    else:  # the queue has them all, so the log need not be searched
        wanted = [replace(selection.wanted, state=each) for each in UNDER_WAY]
        found = [turn for each in wanted for turn in await find_turns(bus, each, limit=sys.maxsize)]
    return [turn for turn in found if turn.state in states]


async def _named(bus: Bus, ids: tuple[str, ...]) -> list[TurnHistory]:
    try:
        found = await turns_by_id(bus, ids)
    except Rejected as error:
        raise WrongUsage(error.message) from error
    if missing := [name for name in ids if name not in found]:
        raise Refused(*(f"the log has no turn {name!r}" for name in missing))
    return [found[name] for name in ids]
