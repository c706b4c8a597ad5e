"""Cancels, or erases the content of, many turns. Both can be repeated: what is done is done."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from pallas_bus.history.turns import TurnHistory
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read_last
from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.content.removal import Erased, erase_content
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_cli.confirming import confirm_after
from pallas_cli.plain_text import print_plain
from pallas_cli.turns.counts import by_agent, counts_text, turns_text
from pallas_cli.turns.selection import ENDED, UNDER_WAY, Selection, select
from pallas_contracts.catalog import TURN_LOG, TURN_OUTCOME
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
    turns = [turn for turn in await select(bus, selection, UNDER_WAY) if turn.outcome is None]
    states = counts_text(turn.state for turn in turns)
    lines = [f"{turns_text(len(turns))} to cancel{f' ({states}), of: {by_agent(turns)}' if turns else ''}"]
    confirm_after(lines, "these turns are cancelled", yes=confirmed or not turns, as_json=as_json)
    await _each(turns, lambda turn: _cancel(bus, turn))
    ended = await _outcomes(bus, turns)
    if as_json:
        print(json.dumps({"cancelled": [_cancelled(turn, ended) for turn in turns]}, indent=2))
    else:
        ends = counts_text(outcome.status for outcome in ended.values())
        late = len(turns) - len(ended)
        parts = [ends, f"not ended yet, but no worker can continue them: {late}" if late else ""]
        print_plain(f"{turns_text(len(turns))} cancelled: {'; '.join(filter(None, parts)) or 'nothing to do'}.")


async def _cancel(bus: Bus, turn: TurnHistory) -> None:
    await request_cancel(bus, turn.ref, "cancelled by an operator")
    if turn.request is not None:
        await withdraw_turn(bus, turn.request, turn.position)


def _cancelled(turn: TurnHistory, ended: dict[str, TurnOutcome]) -> dict[str, str | None]:
    outcome = ended.get(turn.turn_id)
    return {"turn": turn.turn_id, "was": turn.state, "ended": outcome.status if outcome is not None else None}


async def _outcomes(bus: Bus, turns: Sequence[TurnHistory]) -> dict[str, TurnOutcome]:
    """The outcomes of these turns, as far as they have one within `_TIMEOUT`."""
    subjects, found = [turn.ref.on(TURN_OUTCOME.template) for turn in turns], dict[str, TurnOutcome]()
    with suppress(TimeoutError):
        async with asyncio.timeout(_TIMEOUT):
            while len(found) < len(turns):
                records = await read_last(bus, TURN_LOG.name, *subjects)
                outcomes = (TurnOutcome.model_validate_json(record.data) for record in records)
                found = {outcome.turn_id: outcome for outcome in outcomes}
                await asyncio.sleep(_LOOK)
    return found


async def forget_many(bus: Bus, selection: Selection, *, confirmed: bool, as_json: bool) -> None:
    """Erase the content of the selected turns that have ended. Their events stay in the log.

    Raises:
        Refused: a turn of the selection is not in the log.
        WrongUsage: the selection is invalid, or not confirmed.
    """
    turns = [turn for turn in await select(bus, selection, ENDED) if turn.outcome is not None]
    lines = [f"{turns_text(len(turns))} to forget{f', of: {by_agent(turns)}' if turns else ''}"]
    confirm_after(lines, "the content of these turns is erased", yes=confirmed or not turns, as_json=as_json)
    erased = await _each(turns, lambda turn: erase_content(bus, turn.ref))
    if as_json:
        rows = [erased_row(turn.turn_id, each) for turn, each in zip(turns, erased, strict=True)]
        print(json.dumps({"forgotten": rows, "under_way": []}, indent=2))
    else:
        had = sum(each.anything for each in erased)
        print_plain(f"{turns_text(len(turns))} forgotten; {had} had content.")


def erased_row(turn_id: str, erased: Erased) -> dict[str, object]:
    """What was erased of a turn, as plain values."""
    return {"turn": turn_id, "messages": erased.messages, "parts": erased.parts, "dead_letter": erased.original}


async def _each[T](turns: Sequence[TurnHistory], do: Callable[[TurnHistory], Awaitable[T]]) -> list[T]:
    """Call `do` with every turn, `_AT_ONCE` at a time."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(turn: TurnHistory) -> T:
        async with limit:
            return await do(turn)

    return await asyncio.gather(*map(one, turns))
