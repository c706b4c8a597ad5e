"""Cancels, or erases the content of, many turns. Both can be repeated: what is done is done."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress

import typer

from pallas_bus.history.turns import STATES, TurnHistory
from pallas_bus.transport.at_once import for_each
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import request_cancel, stored_outcomes
from pallas_bus.turnlog.content.removal import Erased, erase_content
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_cli.confirming import confirm
from pallas_cli.plain_text import print_plain
from pallas_cli.turns.counts import counts_text, turns_text, whose_lines
from pallas_cli.turns.selection import ENDED, UNDER_WAY, Selection, select
from pallas_contracts.turns import TurnOutcome

_AT_ONCE = 16
_TIMEOUT, _LOOK = 5.0, 0.1
"""Seconds to wait for the outcomes of cancelled turns, and between two looks."""


async def cancel_many(bus: Bus, selection: Selection, *, confirmed: bool, as_json: bool) -> None:
    """Cancel the selected turns that wait or run, and print how they ended.

    Raises:
        Refused: a turn of the selection is not in the log.
        WrongUsage: the selection is invalid, or not confirmed.
    """
    found = await select(bus, selection, UNDER_WAY)
    turns = [turn for turn in found if turn.outcome is None]
    states = f" ({counts_text(turn.state for turn in turns)})" if turns else ""
    lines = [f"{turns_text(len(turns))} to cancel{states}", *whose_lines(turns)]
    if over := len(found) - len(turns):
        lines.append(f"  left out, ended already: {over}")
    confirm("these turns are cancelled", yes=confirmed or not turns, as_json=as_json, after=lines)
    await for_each(turns, lambda turn: _cancel(bus, turn), at_once=_AT_ONCE)
    ended = await _outcomes(bus, turns)
    if as_json:
        print(json.dumps({"cancelled": [_cancelled(turn, ended) for turn in turns]}, indent=2))
    else:
        ends = counts_text(outcome.status for outcome in ended.values())
        late = len(turns) - len(ended)
        parts = [ends, f"not ended yet, but no worker can continue them: {late}" if late else ""]
        print_plain(f"{turns_text(len(turns))} cancelled: {'; '.join(filter(None, parts)) or 'nothing to do'}.")


async def _cancel(bus: Bus, turn: TurnHistory) -> None:
    await request_cancel(bus, turn.ref, "cancelled by an operator", turn.request)
    if turn.request is not None:
        await withdraw_turn(bus, turn.request, turn.position)


def _cancelled(turn: TurnHistory, ended: dict[str, TurnOutcome]) -> dict[str, str | None]:
    outcome = ended.get(turn.turn_id)
    return {"turn": turn.turn_id, "was": turn.state, "ended": outcome.status if outcome is not None else None}


async def _outcomes(bus: Bus, turns: Sequence[TurnHistory]) -> dict[str, TurnOutcome]:
    """The outcomes of these turns, as far as they have one within `_TIMEOUT`."""
    found = dict[str, TurnOutcome]()
    with suppress(TimeoutError):
        async with asyncio.timeout(_TIMEOUT):
            while len(found) < len(turns):
                found = await stored_outcomes(bus, [turn.ref for turn in turns])
                await asyncio.sleep(_LOOK)
    return found


async def forget_many(bus: Bus, selection: Selection, *, confirmed: bool, as_json: bool) -> None:
    """Erase the content of the selected turns that have ended. Their events stay in the log.

    Raises:
        Refused: a turn of the selection is not in the log.
        WrongUsage: the selection is invalid, or not confirmed.
        Exit: with code 1, if a selected turn still waits or runs. Its content is not erased.
    """
    found = await select(bus, selection, ENDED if selection.wanted.state is not None else STATES)
    turns, under_way = [turn for turn in found if turn.outcome], [turn for turn in found if not turn.outcome]
    lines = [f"{turns_text(len(turns))} to forget", *whose_lines(turns)]
    if under_way:
        lines.append(f"  left out, they wait or run (cancel them first): {len(under_way)}")
    confirm("the content of these turns is erased", yes=confirmed or not turns, as_json=as_json, after=lines)
    erased = await for_each(turns, lambda turn: erase_content(bus, turn.ref), at_once=_AT_ONCE)
    if as_json:
        rows = [erased_row(turn.turn_id, each) for turn, each in zip(turns, erased, strict=True)]
        print(json.dumps({"forgotten": rows, "under_way": [turn.turn_id for turn in under_way]}, indent=2))
    else:
        had = sum(each.anything for each in erased)
        print_plain(f"{turns_text(len(turns))} forgotten; {had} had content.")
    if under_way:
        raise typer.Exit(1)


def erased_row(turn_id: str, erased: Erased) -> dict[str, object]:
    """What was erased of a turn, as plain values."""
    return {"turn": turn_id, "messages": erased.messages, "parts": erased.parts, "dead_letter": erased.original}
