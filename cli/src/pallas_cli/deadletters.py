"""Dead letters: listed, shown, deleted, and retried: the original request becomes a new turn.

A letter is removed last, and the new turn's id follows from it. If the command dies in between, another retry finds or
submits the same turn. It has the id that `pallas turns replay` gives it, too, so it is executed once.
"""

import base64
import hashlib
import json
from typing import Any

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_cli.moments import moment_of, since_words
from pallas_cli.operators import OPERATOR
from pallas_cli.options import WHOLE, Page
from pallas_cli.plain_text import print_answer, print_list, print_plain
from pallas_cli.refused import Refused, not_there
from pallas_contracts.catalog import AGENTS
from pallas_contracts.errors import NotFound, PallasError, Rejected
from pallas_contracts.ids import TurnId, derived_turn_id, replay_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import DeadLetter, DeadOriginal, TurnRequested
from pallas_turns.content import offload_request, whole_request
from pallas_turns.dead_letters import KeptLetter, drop_letter, read_letter, read_letters, request_of
from pallas_turns.history.replays import find_replays
from pallas_turns.history.turns import TurnHistory
from pallas_turns.queue import submit


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
    print_list(
        rows,
        ("letter", "agent", "turn", "code", "when", "original", "reason"),
        map(_cells, rows),
        nothing=none_found(since),
        as_json=as_json,
    )


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
    print_answer({"letter": name, "deleted": True}, f"Deleted {name}.", as_json=as_json)


async def retry_one_letter(bus: Bus, name: str, *, as_json: bool) -> None:
    """Submit a letter's turn again and print the id of the new one.

    Raises:
        Refused: the letter does not exist or cannot be retried.
    """
    turn_id = await _retry(bus, name)
    print_answer({"letter": name, "turn": turn_id}, f"Retried {name} as turn {turn_id}.", as_json=as_json)


async def retry_every_letter(bus: Bus, *, team: str | None, agent: str | None, since: str, as_json: bool) -> None:
    """Retry all letters that match, oldest first, and print the result of each.

    Raises:
        Refused: some could not be retried; the others were.
    """
    rows: list[dict[str, Any]] = []
    for kept in await letters_of(bus, team=team, agent=agent, since=since):
        row: dict[str, Any] = {"letter": kept.letter.letter, "turn": None, "refused": None}
        try:
            row["turn"] = await _retry(bus, kept.letter.letter)
        except Refused as refusal:
            row["refused"] = str(refusal)
        rows.append(row)
        if not as_json and row["turn"]:
            print_plain(f"Retried {row['letter']} as turn {row['turn']}.")
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print_plain(none_found(since))
    if refused := [row["refused"] for row in rows if row["refused"]]:
        raise Refused(*refused)


async def _retry(bus: Bus, name: str) -> str:
    letter, original = await letter_of(bus, name)
    new = await _replayed(bus, letter) or await _submit(bus, letter, original)
    try:
        await drop_letter(bus, letter)
    except PallasError as error:
        message = f"{name}: turn {new} was submitted, but the letter could not be removed: {error.message}"
        raise Refused(message) from error
    return new


async def _replayed(bus: Bus, letter: DeadLetter) -> str | None:
    """The replay of the letter's turn, if there is one: its turn is not executed twice again."""
    if letter.turn_id is None:
        return None
    replays = await find_replays(bus, [TurnHistory(letter.team, letter.agent, letter.turn_id)])
    return replays[letter.turn_id].turn_id if replays else None


async def _submit(bus: Bus, letter: DeadLetter, original: DeadOriginal | None) -> str:
    request = await _as_new_turn(bus, letter, original)
    try:
        await submit(bus, await offload_request(bus, request))
    except PallasError as error:
        raise Refused(f"{letter.letter}: {error.code}: {error.message}; you can retry it") from error
    return request.turn_id


async def _as_new_turn(bus: Bus, letter: DeadLetter, original: DeadOriginal | None) -> TurnRequested:
    """The original request with a new id.

    Raises:
        Refused: this version cannot decode it either, its content is no longer stored, or its agent is gone.
    """
    try:
        if original is None:
            raise NotFound("the original message is no longer stored", code="content_expired")
        asked = await whole_request(bus, request_of(original))
    except (Rejected, NotFound) as error:
        raise Refused(f"{letter.letter}: {error.code}: {error.message}") from error
    if await kv.get(bus, AGENTS, team=asked.team, agent=asked.agent) is None:
        raise Refused(f"{letter.letter}: agent {asked.agent!r} of team {asked.team!r} no longer exists")
    # The new turn has no idempotency key, so it needs no digest; what was left of a budget then does not hold now.
    changes = {"turn_id": _new_turn(letter), "replay_of": asked.turn_id, "operator": OPERATOR}
    return asked.model_copy(update=changes | {"digest": None, "allowance": None, "requested_at": utc_now()})


def _new_turn(letter: DeadLetter) -> TurnId:
    """The id of the new turn, always the same for one letter: that of the first replay of its turn."""
    if letter.turn_id is not None:
        return replay_id(letter.turn_id)
    return derived_turn_id(hashlib.sha256(f"retry {letter.letter}".encode()).digest())
