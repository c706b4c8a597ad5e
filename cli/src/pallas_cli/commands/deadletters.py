"""`pallas deadletters`: turns that could not be handled, listed, shown, deleted, and retried as new turns.

A letter is removed last, and the new turn's id follows from it. If the command dies in between, another retry finds or
submits the same turn. It has the id that `pallas turns replay` gives it, too, so it is executed once.
"""

import base64
import hashlib
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_cli.command import Made, Paged, command
from pallas_cli.filters import Agent, Since, Team
from pallas_cli.moments import moment_of, since_words
from pallas_cli.options import WHOLE
from pallas_cli.plain_text import print_answer, print_json, print_list, print_plain
from pallas_cli.refused import Refused, WrongUsage, not_there
from pallas_cli.turns.replay import OPERATOR
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

app = typer.Typer()

Letter = Annotated[str, typer.Argument(metavar="LETTER", help="Name of the dead letter, as `list` shows it.")]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which letters are meant. `since` is what the user typed."""

    team: Team = None
    agent: Agent = None
    since: Since = "7d"

    async def letters(self, bus: Bus) -> list[KeptLetter]:
        """The letters that match, oldest first."""
        return await read_letters(bus, since=moment_of(self.since), team=self.team, agent=self.agent)

    @property
    def none_found(self) -> str:
        """The sentence of an empty list."""
        return f"No dead letters {since_words(self.since)}."


Wanted = Annotated[Filter, Made(Filter)]


async def letter_of(bus: Bus, name: str) -> tuple[DeadLetter, DeadOriginal | None]:
    """One letter, with its original message while that is stored."""
    found = await read_letter(bus, name)
    if found is None:
        raise not_there("dead letter", name, otherwise="; `pallas deadletters list` shows all dead letters")
    return found


@command(app, "list")
async def show_letters(bus: Bus, *, wanted: Wanted, page: Paged = WHOLE, as_json: bool) -> None:
    """List dead letters: turn, reason, time, original kept or not."""
    letters = page.cut(await wanted.letters(bus), lambda kept: kept.letter.letter)
    rows = [_row(kept.letter) | {"original": kept.has_original} for kept in letters]
    headers = ("letter", "agent", "turn", "code", "when", "original", "reason")
    print_list(rows, headers, map(_cells, rows), nothing=wanted.none_found, as_json=as_json)


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
    agent = f"{row['team']}/{row['agent']}"
    return [row["letter"], agent, row["turn"] or "-", row["code"], when, original, row["reason"]]


@command(app, "show")
async def show_letter(
    bus: Bus,
    letter: Letter,
    *,
    content: Annotated[
        bool, typer.Option("--content", help="Print the original message too, with the caller's content.")
    ] = False,
    as_json: bool,
) -> None:
    """Show one dead letter."""
    found, original = await letter_of(bus, letter)
    shown = _original(original, content=content)
    facts = _row(found) | {"subject": found.subject, "original": shown}
    lines = [f"{found.letter} {found.team}/{found.agent}: {found.code}"]
    for field in ("turn", "reason", "attempts", "at", "subject"):
        lines.append(f"  {field}: {facts[field] if facts[field] is not None else '-'}")
    lines.append(f"  original: {shown['bytes']} bytes" if shown is not None else "  original: gone")
    for name, value in (shown or {}).items():
        if name == "headers":
            lines += [f"  header {header}: {each}" for header, each in value.items()]
        elif name != "bytes":
            lines.append(f"  {name}: {value}")
    print_answer(facts, "\n".join(lines), as_json=as_json)


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


@command(app, "delete", sure="dead letter {letter} and its original message are deleted")
async def delete_letter(bus: Bus, letter: Letter, *, as_json: bool) -> None:
    """Delete a dead letter and its original message permanently."""
    found, _ = await letter_of(bus, letter)
    await drop_letter(bus, found)
    print_answer({"letter": letter, "deleted": True}, f"Deleted {letter}.", as_json=as_json)


@dataclass(frozen=True, slots=True)
class Chosen:
    """One letter, or all that match the options below."""

    letter: Annotated[
        str | None, typer.Argument(metavar="LETTER", help="Name of the dead letter, as `list` shows it.")
    ] = None
    every: Annotated[bool, typer.Option("--all", help="Retry all dead letters that match the options below.")] = False

    def __post_init__(self) -> None:
        if self.every == (self.letter is not None):
            raise WrongUsage("name one LETTER, or pass --all")


@command(app)
async def retry(bus: Bus, *, chosen: Annotated[Chosen, Made(Chosen)], wanted: Wanted, as_json: bool) -> None:
    """Submit the original as a new turn; remove the dead letter. Exit code 1 if a retry failed."""
    if (name := chosen.letter) is not None:
        turn_id = await _retry(bus, name)
        print_answer({"letter": name, "turn": turn_id}, f"Retried {name} as turn {turn_id}.", as_json=as_json)
        return
    rows: list[dict[str, Any]] = []
    for kept in await wanted.letters(bus):
        row: dict[str, Any] = {"letter": kept.letter.letter, "turn": None, "refused": None}
        try:
            row["turn"] = await _retry(bus, kept.letter.letter)
        except Refused as refusal:
            row["refused"] = str(refusal)
        rows.append(row)
        if not as_json and row["turn"]:
            print_plain(f"Retried {row['letter']} as turn {row['turn']}.")
    if as_json:
        print_json(rows)
    elif not rows:
        print_plain(wanted.none_found)
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
