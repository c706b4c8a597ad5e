"""Cancels turns, and erases the content of those that have ended. Both can be repeated: what is done is done."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import typer

from pallas_bus.connection import Bus
from pallas_bus.errors import for_each
from pallas_cli.options import Yes, confirm
from pallas_cli.plain_text import print_answer
from pallas_cli.refused import Refused
from pallas_cli.turns.listing import (
    ENDED,
    UNDER_WAY,
    Selected,
    Selection,
    counts_text,
    find_turn,
    select,
    turns_text,
    whose_lines,
)
from pallas_contracts.turns import TurnOutcome
from pallas_turns.cancel import withdraw_turn
from pallas_turns.claims import request_cancel, stored_outcomes
from pallas_turns.expiry import Erased, erase_content
from pallas_turns.history.turns import STATES, TurnHistory

_AT_ONCE = 16
_SECONDS, _LOOK = 5.0, 0.1
"""How long the outcomes of cancelled turns are waited for, and the time between two looks."""


async def cancel(bus: Bus, *, selection: Selected, yes: Yes = False, as_json: bool) -> None:
    """Cancel turns that wait or run. One TURN, several, or all that match the options, after a confirmation."""
    if len(selection.ids) == 1:
        await cancel_one(bus, selection.ids[0], as_json=as_json)
    else:
        await cancel_many(bus, selection, confirmed=yes, as_json=as_json)


async def cancel_one(bus: Bus, turn_id: str, *, as_json: bool, timeout: float = _SECONDS) -> None:
    """Cancel a turn, and print how it ended or that it has not ended yet.

    A turn that no worker has claimed is removed from its queue here, because its gateway may be gone.

    Raises:
        Refused: the turn is not in the log, or it has ended.
    """
    turn = await find_turn(bus, turn_id)
    if turn.outcome is not None:
        raise Refused(f"turn {turn_id} has already ended: {turn.outcome.status}")
    first = await _cancel(bus, turn)
    outcomes = await _outcomes(bus, [turn], timeout)
    said = f"Turn {turn_id} {'cancelled' if first else 'was already cancelled'}{_end(turn, outcomes.get(turn_id))}"
    print_answer({"cancelled": True, "first": first} | _cancelled(turn, outcomes), said, as_json=as_json)


def _end(turn: TurnHistory, outcome: TurnOutcome | None) -> str:
    """How the turn ended. A worker may have ended it before the cancellation."""
    attempts = [turn.attempts[number] for number in sorted(turn.attempts)]
    worker = f" on {attempts[-1].claim.worker}" if attempts else ""
    if outcome is None:
        return f": it has not ended{worker} yet, but no worker can continue it."
    if outcome.status != "cancelled":
        return f", but it had already ended{worker}: {outcome.status}."
    return f": it ran{worker} and was stopped." if attempts else ": it had not started and was removed from its queue."


async def cancel_many(bus: Bus, selection: Selection, *, confirmed: bool, as_json: bool) -> None:
    """Cancel the selected turns that wait or run, and print how they ended."""
    found = await select(bus, selection, UNDER_WAY)
    turns = [turn for turn in found if turn.outcome is None]
    states = f" ({counts_text(turn.state for turn in turns)})" if turns else ""
    lines = [f"{turns_text(len(turns))} to cancel{states}", *whose_lines(turns)]
    if over := len(found) - len(turns):
        lines.append(f"  left out, ended already: {over}")
    confirm("these turns are cancelled", yes=confirmed or not turns, as_json=as_json, after=lines)
    await for_each(turns, lambda turn: _cancel(bus, turn), at_once=_AT_ONCE)
    ended = await _outcomes(bus, turns)
    late = len(turns) - len(ended)
    ends = counts_text(outcome.status for outcome in ended.values())
    parts = [ends, f"not ended yet, but no worker can continue them: {late}" if late else ""]
    said = f"{turns_text(len(turns))} cancelled: {'; '.join(filter(None, parts)) or 'nothing to do'}."
    print_answer({"cancelled": [_cancelled(turn, ended) for turn in turns]}, said, as_json=as_json)


async def _cancel(bus: Bus, turn: TurnHistory) -> bool:
    """Cancel a turn; whether nobody had done so before."""
    first = await request_cancel(bus, turn.ref, "cancelled by an operator", turn.request)
    if turn.request is not None:
        await withdraw_turn(bus, turn.request, turn.position)
    return first


def _cancelled(turn: TurnHistory, ended: dict[str, TurnOutcome]) -> dict[str, str | None]:
    outcome = ended.get(turn.turn_id)
    return {"turn": turn.turn_id, "was": turn.state, "ended": outcome.status if outcome is not None else None}


async def _outcomes(bus: Bus, turns: Sequence[TurnHistory], timeout: float = _SECONDS) -> dict[str, TurnOutcome]:
    """The outcomes of these turns, as far as they have one within the timeout."""
    found = dict[str, TurnOutcome]()
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while len(found) < len(turns):
                found = await stored_outcomes(bus, [turn.ref for turn in turns])
                await asyncio.sleep(_LOOK)
    return found


async def forget(bus: Bus, *, selection: Selected, yes: Yes = False, as_json: bool) -> None:
    """Erase the content of turns that have ended. One TURN, several, or all that match, after a confirmation.

    Exit code 1 if one of them still waits or runs: its content is not erased.
    """
    wanted = selection.wanted
    found = await select(bus, selection, ENDED if wanted.state is not None else STATES)
    if wanted.conversation is not None and not found:
        raise Refused("the log has no turn of that conversation")
    turns, under_way = [turn for turn in found if turn.outcome], [turn for turn in found if not turn.outcome]
    lines = [f"{turns_text(len(turns))} to forget", *whose_lines(turns)]
    if under_way:
        lines.append(f"  left out, they wait or run (cancel them first): {len(under_way)}")
    confirm("the content of these turns is erased", yes=yes or not turns, as_json=as_json, after=lines)
    erased = await for_each(turns, lambda turn: erase_content(bus, turn.ref), at_once=_AT_ONCE)
    if selection.ids or wanted.conversation is not None:
        said = [*map(_forgotten, turns, erased), *map(_hint, under_way)]
    else:
        said = [f"{turns_text(len(turns))} forgotten; {sum(each.anything for each in erased)} had content."]
    rows = [_erased_row(turn.turn_id, each) for turn, each in zip(turns, erased, strict=True)]
    answer = {"forgotten": rows, "under_way": [turn.turn_id for turn in under_way]}
    print_answer(answer, "\n".join(said), as_json=as_json)
    if under_way:
        raise typer.Exit(1)


def _erased_row(turn_id: str, erased: Erased) -> dict[str, object]:
    """What was erased of a turn, as plain values."""
    return {"turn": turn_id, "messages": erased.messages, "parts": erased.parts, "dead_letter": erased.original}


def _forgotten(turn: TurnHistory, erased: Erased) -> str:
    if not erased.anything:
        return f"Turn {turn.turn_id} has no content."
    dead = ", the original message of its dead letter" if erased.original else ""
    return f"Turn {turn.turn_id} forgotten: {erased.messages} messages, {erased.parts} object parts{dead}."


def _hint(turn: TurnHistory) -> str:
    return f"Turn {turn.turn_id} is {turn.state}: cancel it first (pallas turns cancel {turn.turn_id})."
