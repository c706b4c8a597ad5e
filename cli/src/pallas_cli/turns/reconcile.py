"""After a restore: lists the turns of the backup that had not ended, stores decisions, and releases the hold."""

import getpass
import json
import socket
from collections.abc import Sequence
from typing import Literal

from pallas_bus.connection import Bus
from pallas_bus.kv import get_entry, put
from pallas_cli.plain_text import print_answer, print_plain, print_table
from pallas_cli.refused import Refused
from pallas_contracts.backups import Hold, TurnDecided
from pallas_contracts.bounds import line
from pallas_contracts.catalog import HOLDS, RESTORE_HOLD
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.message import utc_now
from pallas_turns.restores import Unsettled, decide, find_unsettled

type Word = Literal["run", "cancel", "done"]

WORDS: tuple[Word, ...] = ("run", "cancel", "done")


async def show(bus: Bus, *, as_json: bool) -> None:
    """Print the hold and the turns."""
    hold, _ = await _hold(bus)
    turns = await find_unsettled(bus, hold)
    if as_json:
        print(json.dumps({"hold": _about(hold), "turns": [row_of(turn) for turn in turns]}, indent=2))
        return
    print_plain(_sentence(hold))
    if not turns:
        print_plain("All turns have ended." if hold is None else "All turns of the backup have ended.")
        return
    headers = ("turn", "agent", "caller", "requested", "state", "decided", "had begun")
    print_table(headers, map(_cells, turns))


async def decide_about(
    bus: Bus, names: Sequence[str], word: Word, *, everything: bool, by: str | None, as_json: bool
) -> None:
    """Decide about these turns, or about all that are still to be decided.

    Raises:
        Refused: a turn is not of the backup, has ended, or cannot be decided like this. What came before it is decided.
    """
    hold, _ = await _hold(bus)
    if hold is not None and not hold.complete:
        raise Refused(f"the restore of {hold.backup} has not finished: repeat it first")
    chosen = _choose(await find_unsettled(bus, hold), names, everything=everything)
    done = list[str]()
    for each in chosen:
        try:
            await decide(bus, each.opened, _decision(each, word, hold, by))
        except PallasError as error:
            raise Refused(f"{error.message}; decided before it: {len(done)}") from error
        done.append(each.turn.turn_id)
        if not as_json:
            print_plain(f"{each.turn.turn_id}: {word}")
    if as_json:
        print(json.dumps({"decision": word, "turns": done}, indent=2))


async def release(bus: Bus, *, by: str | None, as_json: bool) -> None:
    """Let executors take turns again.

    Raises:
        Refused: turns are still to be decided, nothing is held, or the restore has not finished.
    """
    hold, position = await _hold(bus)
    if hold is None or not hold.active:
        raise Refused("no restore holds turns; an executor may be held by its own PALLAS_HOLD")
    if not hold.complete:
        raise Refused(f"the restore of {hold.backup} has not finished: repeat it first")
    if left := [each.turn.turn_id for each in await find_unsettled(bus, hold) if each.is_open]:
        raise Refused(*(f"turn {turn} is still to be decided" for turn in left))
    released = hold.model_copy(update={"released_at": utc_now(), "released_by": _who(by)})
    await put(bus, HOLDS, released, after=position, hold=RESTORE_HOLD)
    print_answer({"hold": _about(released)}, _sentence(released), as_json=as_json)


def row_of(each: Unsettled) -> dict[str, object]:
    """A turn as plain values; times are ISO 8601."""
    turn, decided = each.turn, each.decided
    attempts = [turn.attempts[number] for number in sorted(turn.attempts)]
    return {
        "turn": turn.turn_id,
        "team": turn.team,
        "agent": turn.agent,
        "tool": turn.tool,
        "caller": turn.caller,
        "parent": turn.request.parent if turn.request is not None else None,
        "requested_at": turn.requested_at.isoformat() if turn.requested_at else None,
        "state": turn.state,
        "attempts": len(attempts),
        "worker": attempts[-1].claim.worker if attempts else None,
        "begun": [{"tool": it.tool, "safe": it.safe, "answered": it.answered} for it in each.begun],
        "can_run": turn.request is not None,
        "log_expired": each.forgotten,
        "open": each.is_open,
        "decision": decided.decision if decided is not None else None,
        "decided_by": decided.by if decided is not None else None,
    }


def _cells(each: Unsettled) -> list[str]:
    turn, decided = each.turn, each.decided
    asked = turn.requested_at.isoformat()[:19].replace("T", " ") if turn.requested_at else "-"
    word = "-" if decided is None else decided.decision if not each.is_open else f"{decided.decision}, not carried out"
    return [turn.turn_id, f"{turn.team}/{turn.agent}", turn.caller or "-", asked, turn.state, word, _begun(each)]


def _begun(each: Unsettled) -> str:
    if each.forgotten:
        return "not known: its log has expired"
    tools = [f"{it.tool}{'' if it.answered else ' (no answer)'}{' (safe)' if it.safe else ''}" for it in each.begun]
    if each.turn.request is None:
        tools.append("(its request is not in the backup: it cannot be run)")
    return ", ".join(tools) or "nothing"


def _choose(turns: Sequence[Unsettled], names: Sequence[str], *, everything: bool) -> list[Unsettled]:
    if everything:
        return [each for each in turns if each.is_open]
    known = {each.turn.turn_id: each for each in turns}
    if strange := [name for name in names if name not in known]:
        raise Refused(*(f"turn {name} is not one of the backup without an outcome" for name in strange))
    return [known[name] for name in names]


def _decision(each: Unsettled, word: Word, hold: Hold | None, by: str | None) -> TurnDecided:
    turn, backup = each.turn, hold.backup if hold is not None else None
    names = {"turn_id": turn.turn_id, "team": turn.team, "agent": turn.agent}
    return TurnDecided(**names, decision=word, backup=backup, by=_who(by), at=utc_now())


async def _hold(bus: Bus) -> tuple[Hold | None, int]:
    try:
        return await get_entry(bus, HOLDS, hold=RESTORE_HOLD)
    except Unavailable as error:
        if error.code != "no_stream":
            raise
        return None, 0


def _who(by: str | None) -> str:
    return line(by or f"{getpass.getuser()}@{socket.gethostname()}")


def _about(hold: Hold | None) -> dict[str, object] | None:
    return {**hold.model_dump(mode="json"), "active": hold.active} if hold is not None else None


def _sentence(hold: Hold | None) -> str:
    if hold is None:
        return "No restore holds turns back. What follows is every turn of the installation that has not ended."
    if not hold.complete:
        return f"The restore of {hold.backup} has not finished: repeat it with --replace."
    if hold.active:
        return f"Held after the restore of {hold.backup}, which was made at {hold.taken_at:%Y-%m-%d %H:%M:%S} UTC."
    return f"The hold of {hold.backup} was released at {hold.released_at:%Y-%m-%d %H:%M:%S} UTC by {hold.released_by}."
