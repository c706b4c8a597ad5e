"""Cancels turns, and erases the content of those that have ended. Both can be repeated: what is done is done."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer

from pallas_bus.connection import Bus
from pallas_bus.errors import for_each
from pallas_cli.kept_secrets import find_log_key
from pallas_cli.options import confirm
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused
from pallas_cli.turns.listing import (
    ENDED,
    UNDER_WAY,
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
from pallas_turns.history.turns import STATES, TurnHistory, read_conversation

_AT_ONCE = 16
_SECONDS, _LOOK = 5.0, 0.1
"""How long the outcomes of cancelled turns are waited for, and the time between two looks."""


async def cancel(bus: Bus, turn_id: str, *, as_json: bool, timeout: float = _SECONDS) -> None:
    """Cancel a turn that waits or runs, and print how it ended or that it has not ended yet.

    A turn that no worker has claimed is removed from its queue here, because its gateway may be gone.

    Raises:
        Refused: the turn is not in the log, or it has ended.
    """
    turn = await find_turn(bus, turn_id)
    if turn.outcome is not None:
        raise Refused(f"turn {turn_id} has already ended: {turn.outcome.status}")
    first = await _cancel(bus, turn)
    outcome = (await _outcomes(bus, [turn], timeout)).get(turn_id)
    if as_json:
        ended = outcome.status if outcome is not None else None
        print(json.dumps({"turn": turn_id, "cancelled": True, "first": first, "was": turn.state, "ended": ended}))
    else:
        print_plain(f"Turn {turn_id} {'cancelled' if first else 'was already cancelled'}{_end(turn, outcome)}")


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


def hash_of(conversation: str | None, data: Path) -> str | None:
    """The hash of a conversation id, as the log stores it. `data` is the data folder, which has the log key.

    Raises:
        Refused: the log key is missing.
    """
    return find_log_key(data).conversation(conversation) if conversation is not None else None


async def forget(bus: Bus, *, turn_id: str | None, conversation: str | None, as_json: bool) -> None:
    """Erase the content of one turn, or of all turns of a conversation, given by its hash.

    Raises:
        Refused: the log has no such turn.
        Exit: with code 1, if a turn still waits or runs. Its content is not erased.
    """
    turns = await _turns(bus, turn_id, conversation)
    over = {turn.turn_id: await erase_content(bus, turn.ref) for turn in turns if turn.outcome is not None}
    under_way = [turn for turn in turns if turn.outcome is None]
    if as_json:
        print(
            json.dumps(
                {"forgotten": [erased_row(*each) for each in over.items()], "under_way": _ids(under_way)}, indent=2
            )
        )
    else:
        for line in [*(_line(*each) for each in over.items()), *map(_hint, under_way)]:
            print_plain(line)
    if under_way:
        raise typer.Exit(1)


async def _turns(bus: Bus, turn_id: str | None, conversation: str | None) -> list[TurnHistory]:
    if turn_id is not None:
        return [await find_turn(bus, turn_id)]
    assert conversation is not None
    if not (turns := await read_conversation(bus, conversation)):
        raise Refused("the log has no turn of that conversation")
    return turns


def _ids(turns: list[TurnHistory]) -> list[str]:
    return [turn.turn_id for turn in turns]


def _line(turn_id: str, erased: Erased) -> str:
    if not erased.anything:
        return f"Turn {turn_id} has no content."
    dead = ", the original message of its dead letter" if erased.original else ""
    return f"Turn {turn_id} forgotten: {erased.messages} messages, {erased.parts} object parts{dead}."


def _hint(turn: TurnHistory) -> str:
    return f"Turn {turn.turn_id} is {turn.state}: cancel it first (pallas turns cancel {turn.turn_id})."
