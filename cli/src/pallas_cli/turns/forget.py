"""Erases the content of turns that have ended. Their other events stay in the log."""

import json
from pathlib import Path

import typer

from pallas_bus.history.turns import TurnHistory, read_conversation
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.content.removal import Erased, erase_content
from pallas_cli.log_key import find_log_key
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused
from pallas_cli.turns.listing import find_turn
from pallas_cli.turns.many import erased_row


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
