"""Which turns a command is about: those that are named, or those that match a filter."""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pallas_bus.history.turn_list import TurnFilter, find_turns, turns_by_id
from pallas_bus.history.turns import State, TurnHistory
from pallas_bus.transport.connection import Bus
from pallas_cli.refused import Refused, WrongUsage
from pallas_cli.turns.listing import filter_of
from pallas_contracts.errors import Rejected
from pallas_teams.providers import PROVIDERS, parse_model

ENDED: tuple[State, ...] = ("completed", "failed", "cancelled", "input_required")
UNDER_WAY: tuple[State, ...] = ("waiting", "running")


@dataclass(frozen=True, slots=True)
class Selection:
    """Turns by their ids, or else by a filter."""

    ids: tuple[str, ...] = ()
    wanted: TurnFilter = field(default_factory=TurnFilter)


def selection_of(ids: Collection[str], options: Mapping[str, str | None], *, data: Path) -> Selection:
    """The selection of a command line. `options` are those of `filter_of`.

    Raises:
        Refused: neither or both of ids and options are given, or one is invalid or empty.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if empty := [f"--{name} is empty" for name, value in given.items() if not value]:
        raise Refused(*empty)  # a variable that is not set in a script must not match everything
    if bool(ids) == bool(given):
        also = f", not {', '.join(f'--{name}' for name in given)} as well" if ids else ""
        raise WrongUsage(f"name turns, or pass a filter such as --state, --agent or --since{also}")
    if ids:
        return Selection(tuple(dict.fromkeys(ids)))
    return Selection(wanted=filter_of(**given, data=data))


def check_model(model: str | None) -> None:
    """Check the model of a replay before anything is queued: each turn is replayed once, and would fail with this one.

    Raises:
        WrongUsage: it is not the name of a model.
    """
    if model is not None and parse_model(model) is None:
        raise WrongUsage(f"--model {model!r} is not 'offline' or PROVIDER.NAME of a provider: {', '.join(PROVIDERS)}")


async def select(bus: Bus, selection: Selection, states: tuple[State, ...]) -> list[TurnHistory]:
    """The selected turns, in the order of their requests. A filter finds turns in one of `states`; names find all.

    Raises:
        Refused: a named turn is not in the log, or the filter's state is not one of `states`.
    """
    if selection.ids:
        return await _named(bus, selection.ids)
    state = selection.wanted.state
    if state is not None and state not in states:
        raise WrongUsage(f"--state {state} does not fit: it must be one of {', '.join(states)}")
    if state is not None or states != UNDER_WAY:
        found = await find_turns(bus, selection.wanted, limit=sys.maxsize)
    else:  # the queue has them all, so the log need not be searched
        wanted = [replace(selection.wanted, state=each) for each in UNDER_WAY]
        found = [turn for each in wanted for turn in await find_turns(bus, each, limit=sys.maxsize)]
    return [turn for turn in found if turn.state in states]


async def _named(bus: Bus, ids: tuple[str, ...]) -> list[TurnHistory]:
    try:
        found = await turns_by_id(bus, ids)
    except Rejected as error:
        raise WrongUsage(error.message) from error
    if missing := [name for name in ids if name not in found]:
        raise Refused(*(f"the log has no turn {name!r}" for name in missing))
    return [found[name] for name in ids]
