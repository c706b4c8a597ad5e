"""Dead letters: listed, shown and deleted."""

import base64
import json
from typing import Any

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.dead_letters import (
    KeptLetter,
    drop_letter,
    read_letter,
    read_letters,
)
from pallas_cli.moments import moment_of, since_words
from pallas_cli.paging import WHOLE, Page
from pallas_cli.plain_table import print_table
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused, not_there
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import DeadLetter, DeadOriginal


async def letters_of(bus: Bus, *, team: str | None, agent: str | None, since: str) -> list[KeptLetter]:
    """The letters that match, oldest first.

    Raises:
        Refused: a name or time is invalid.
    """
    moment = moment_of(since)
    try:
        return await read_letters(bus, since=moment, team=team, agent=agent)
    except Rejected as error:
        raise Refused(error.message) from error


async def letter_of(bus: Bus, name: str) -> tuple[DeadLetter, DeadOriginal | None]:
    """One letter, with its original message while that is stored.

    Raises:
        Refused: there is no such letter.
    """
    try:
        found = await read_letter(bus, name)
    except Rejected as error:
        raise Refused(error.message) from error
    if found is None:
        raise not_there("dead letter", name, otherwise="; `pallas deadletters list` shows all dead letters")
    return found


async def show_letters(
    bus: Bus, *, team: str | None, agent: str | None, since: str, page: Page = WHOLE, as_json: bool
) -> None:
    """Print the letters that match, the newest last."""
    found = await letters_of(bus, team=team, agent=agent, since=since)
    letters = page.cut(found, lambda kept: kept.letter.letter)
    rows = [_row(kept.letter) | {"original": kept.has_original} for kept in letters]
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print_plain(none_found(since))
    else:
        print_table(("letter", "agent", "turn", "code", "when", "original", "reason"), map(_cells, rows))


def none_found(since: str) -> str:
    """The sentence of an empty list. `since` is what the user typed."""
    return f"No dead letters {since_words(since)}."


def _row(letter: DeadLetter) -> dict[str, Any]:
    """A letter as plain values; the time is ISO 8601."""
    return {
        "letter": letter.letter,
        "team": letter.team,
        "agent": letter.agent,
        "turn": letter.turn_id,
        "code": letter.code,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "at": letter.at.isoformat(),
    }


def _cells(row: dict[str, Any]) -> list[str]:
    when, original = row["at"][:19].replace("T", " "), "kept" if row["original"] else "gone"
    return [
        row["letter"],
        f"{row['team']}/{row['agent']}",
        row["turn"] or "-",
        row["code"],
        when,
        original,
        row["reason"],
    ]


async def show_letter(bus: Bus, name: str, *, content: bool, as_json: bool) -> None:
    """Print one letter; with `content`, also the headers and body of its original message.

    Raises:
        Refused: there is no such letter.
    """
    letter, original = await letter_of(bus, name)
    shown = _original(original, content=content)
    facts = _row(letter) | {"subject": letter.subject, "original": shown}
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    print_plain(f"{letter.letter} {letter.team}/{letter.agent}: {letter.code}")
    for field in ("turn", "reason", "attempts", "at", "subject"):
        print_plain(f"  {field}: {facts[field] if facts[field] is not None else '-'}")
    if shown is None:
        print_plain("  original: gone")
        return
    print_plain(f"  original: {shown['bytes']} bytes")
    for header, value in shown.get("headers", {}).items():
        print_plain(f"  header {header}: {value}")
    for form in ("body", "base64"):
        if form in shown:
            print_plain(f"  {form}: {shown[form]}")


def _original(original: DeadOriginal | None, *, content: bool) -> dict[str, Any] | None:
    """The original message: `body` if it is text, else `base64`."""
    if original is None:
        return None
    raw = base64.b64decode(original.data)
    if not content:
        return {"bytes": len(raw)}
    try:
        content_of = {"body": raw.decode()}
    except UnicodeDecodeError:
        content_of = {"base64": original.data}
    return {"bytes": len(raw), "headers": original.headers, **content_of}


async def delete_letter(bus: Bus, name: str, *, as_json: bool) -> None:
    """Delete a letter and its original message.

    Raises:
        Refused: there is no such letter.
    """
    letter, _ = await letter_of(bus, name)
    await drop_letter(bus, letter)
    if as_json:
        print(json.dumps({"letter": name, "deleted": True}))
    else:
        print_plain(f"Deleted {name}.")
