"""Lists the teams by the shard of the log in which they are."""

import json
from collections import Counter

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import snapshot
from pallas_bus.turnlog.logs import count_in_shards
from pallas_bus.turnlog.places import place_now
from pallas_cli.options import Page
from pallas_cli.plain_text import print_plain, print_table
from pallas_cli.refused import WrongUsage
from pallas_contracts.catalog import AGENTS, SHARDS, TURN_REQUESTED
from pallas_contracts.ids import is_token
from pallas_contracts.shards import TeamShard, shard_of

_HEADERS = ("team", "shard", "queued", "was in")


async def show_shards(bus: Bus, *, page: Page, as_json: bool) -> None:
    """Print the teams that have agents or were moved."""
    places = await snapshot(bus, SHARDS) if bus.shards > 1 else {}
    teams = {key.partition(".")[0] for key in await snapshot(bus, AGENTS)} | places.keys()
    queued = await queued_of(bus)
    rows = page.cut([places.get(team) or TeamShard(team=team) for team in sorted(teams)], lambda row: row.team)
    if as_json:
        print(json.dumps([_document(row, queued) for row in rows], indent=2, ensure_ascii=False))
    elif not rows:
        print_plain("No team has agents.")
    else:
        print_table(_HEADERS, (_cells(row, queued) for row in rows))


async def show_shard(bus: Bus, *, team: str, as_json: bool) -> None:
    """Print where one team is. One that nobody has heard of is in shard 0, as it would be.

    Raises:
        WrongUsage: that is not the name of a team.
    """
    if not is_token(team):
        raise WrongUsage(f"{team!r} is not the name of a team")
    place, queued = await place_now(bus, team), await queued_of(bus, team=team)
    if as_json:
        print(json.dumps(_document(place, queued), indent=2, ensure_ascii=False))
    else:
        print_table(_HEADERS, [_cells(place, queued)])


async def queued_of(bus: Bus, **ids: str) -> Counter[tuple[str, int]]:
    """How many turns each team has in the queue of each shard, waiting or running."""
    found = Counter[tuple[str, int]]()
    for subject, count in (await count_in_shards(bus, TURN_REQUESTED, ids)).items():
        names = TURN_REQUESTED.template.parse(subject)
        if names is not None:
            found[names["team"], shard_of(subject)] += count
    return found


def _document(place: TeamShard, queued: Counter[tuple[str, int]]) -> dict[str, object]:
    counts = {str(shard): queued[place.team, shard] for shard in place.shards}
    return {**place.model_dump(mode="json"), "queued": counts}


def _cells(place: TeamShard, queued: Counter[tuple[str, int]]) -> list[str]:
    before = (
        f"{it.shard} until {it.until:%Y-%m-%d %H:%M}, queued {queued[place.team, it.shard]}" for it in place.earlier
    )
    return [place.team, str(place.shard), str(queued[place.team, place.shard]), "; ".join(before) or "-"]
