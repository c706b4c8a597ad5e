"""Moves a team to another shard of the log: one write to the table (docs/adr/0029)."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import get_entry, put, snapshot
from pallas_bus.transport.snapshots import stream_state
from pallas_bus.transport.streams import NANOSECONDS
from pallas_bus.turnlog.queue import delete_consumers
from pallas_cli.operators import OPERATOR
from pallas_cli.options import confirm
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused, WrongUsage
from pallas_cli.shards.listing import queued_of
from pallas_contracts.catalog import AGENTS, GATEWAYS, SHARD_0_ONLY, SHARDS, TURN_LOG, WORKERS
from pallas_contracts.errors import Conflict
from pallas_contracts.ids import is_token
from pallas_contracts.shards import Earlier, TeamShard, name_in

_MARGIN = timedelta(days=1)
"""How long after a move turns in the old shard may be stored, with room: they wait, run, or come from a stale table."""

_FOR_GOOD = timedelta(days=36_500)
"""For a log that is kept for good."""


async def move_team(bus: Bus, *, team: str, shard: int, yes: bool, as_json: bool) -> None:
    """Have new turns of a team in another shard, after a question.

    Raises:
        WrongUsage: there is no such shard, or no team can have this name.
        Refused: the team cannot be moved, or not now.
    """
    _check(bus, team, shard)
    await _check_presences(bus)
    found, position = await get_entry(bus, SHARDS, team=team)
    place, now = found or TeamShard(team=team), datetime.now(UTC)
    queued = await queued_of(bus, team=team)
    kept = await _kept_for(bus, place.shard)
    moved = after_move(place, shard, now, kept, {at: queued[team, at] for at in place.shards})
    if moved == place:
        _say(place, f"{team} is in shard {shard} already.", as_json=as_json)
        return
    if shard != place.shard:
        what = f"new turns of {team} are in shard {shard}, and those of shard {place.shard} end there"
        back = f"It can return to shard {place.shard} after {now + 2 * kept + _MARGIN:%Y-%m-%d}."
        known = await _agents_of(bus, team)
        doubt = () if known else (f"No agent of {team} is known: it is a new team, or its name is wrong.",)
        confirm(what, yes=yes, as_json=as_json, after=(back, *doubt))
    try:
        await put(bus, SHARDS, moved, after=position, team=team)
    except Conflict as error:
        raise Refused(f"{team} was moved by somebody else at this moment", word="conflict") from error
    await _forget(bus, team, set(place.shards) - set(moved.shards))
    _say(moved, f"New turns of {team} are in shard {shard}.", as_json=as_json)


async def _forget(bus: Bus, team: str, shards: Iterable[int]) -> None:
    """Remove the consumers of a team in shards that have nothing of it any more. Its workers do not pull there."""
    await delete_consumers(bus, await _agents_of(bus, team), shards)


async def _agents_of(bus: Bus, team: str) -> list[tuple[str, str]]:
    return [(it.team, it.agent) for it in (await snapshot(bus, AGENTS)).values() if it.team == team]


def after_move(place: TeamShard, shard: int, now: datetime, kept: timedelta, queued: Mapping[int, int]) -> TeamShard:
    """Where the team is after a move. `kept` is how long the log keeps events, `queued` its turns in each shard.

    Shards whose queue and log have nothing of it any more are forgotten.

    Raises:
        Refused: the team was there before, and the log there may have turns of it, or say where they are.
    """
    left = tuple(it for it in place.earlier if now < it.until + kept or queued.get(it.shard, 0))
    if (back := next((it for it in left if it.shard == shard), None)) is not None:
        free = f"{back.until + kept:%Y-%m-%d %H:%M}"
        raise Refused(
            f"{place.team} was in shard {shard}, whose log may have its turns: it can return after {free} UTC"
        )
    if shard == place.shard:
        return place.model_copy(update={"earlier": left})
    earlier = (Earlier(shard=place.shard, until=now + kept + _MARGIN), *left)
    return TeamShard(team=place.team, shard=shard, earlier=earlier, by=OPERATOR.label, at=now)


def _check(bus: Bus, team: str, shard: int) -> None:
    if not is_token(team):
        raise WrongUsage(f"{team!r} is not the name of a team")
    if team in SHARD_0_ONLY:
        raise Refused(f"{team} is the team of a service, and stays in shard 0: move other teams away from there")
    if shard >= bus.shards:
        many = "one shard, 0" if bus.shards == 1 else f"{bus.shards} shards, 0 to {bus.shards - 1}"
        raise WrongUsage(f"the log has {many}: more are made with PALLAS_LOG_SHARDS (docs/operations.md)")


async def _check_presences(bus: Bus) -> None:
    """Check that all processes know all shards: one that does not would make turns where nobody looks for them."""
    present = {**await snapshot(bus, GATEWAYS), **await snapshot(bus, WORKERS)}
    late = sorted(name for name, presence in present.items() if presence.shards < bus.shards)
    if late:
        raise Refused(*(f"{name} has a smaller PALLAS_LOG_SHARDS than {bus.shards}" for name in late))


async def _kept_for(bus: Bus, shard: int) -> timedelta:
    """How long the log of a shard keeps events."""
    state = await stream_state(bus, name_in(TURN_LOG, shard))
    age = int(state.config.get("max_age", 0)) if state is not None else 0
    return timedelta(seconds=age / NANOSECONDS) if age else _FOR_GOOD


def _say(place: TeamShard, line: str, *, as_json: bool) -> None:
    print(json.dumps(place.model_dump(mode="json"), indent=2)) if as_json else print_plain(line)
