"""Finds the replays of turns. The id of a turn's first replay follows from its own, so it is looked up by its id."""

from collections.abc import Iterable
from itertools import batched

from pallas_bus.history.turn_list import complete
from pallas_bus.history.turns import TurnHistory, fold
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, read, read_last
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG, TURN_OUTCOME, TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.ids import replay_id

_AT_ONCE = 200
"""Turns whose replays are looked up in one request, by two subjects each."""

_REPLAY = b'"replay_of":"'


async def find_replays(bus: Bus, turns: Iterable[TurnHistory]) -> dict[str, TurnHistory]:
    """The first replay of each turn that has one, by the id of the turn. A replay may be by another agent of its team.

    Raises:
        Unavailable: the broker does not answer.
    """
    teams: dict[str, tuple[str, str]] = {replay_id(turn.turn_id): (turn.turn_id, turn.team) for turn in turns}
    if not teams:
        return {}
    # The queue is read first: what leaves it meanwhile is in the log.
    found = await _waiting(bus, {team for _, team in teams.values()}, teams.keys())
    for some in batched(teams.items(), _AT_ONCE, strict=False):
        ids = [{"team": team, "turn": name} for name, (_, team) in some]
        for name, turn in fold(await _logged(bus, ids)).items():
            turn.request = found[name].request if name in found else None
            found[name] = turn
    await complete(bus, found)
    return {teams[name][0]: turn for name, turn in found.items()}


async def _logged(bus: Bus, ids: list[dict[str, str]]) -> list[Record]:
    """Their last claims and their outcomes."""
    subjects = (contract.template.filter(**each) for each in ids for contract in (TURN_CLAIM, TURN_OUTCOME))
    return await read_last(bus, TURN_LOG.name, *subjects)


async def _waiting(bus: Bus, teams: Iterable[str], wanted: Iterable[str]) -> dict[str, TurnHistory]:
    """Those in the queue."""
    names = set(wanted)
    records = [
        record
        for team in sorted(teams)
        async for record in read(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter(team=team))
        if _REPLAY in record.data
    ]
    return {name: turn for name, turn in fold(records).items() if name in names}
