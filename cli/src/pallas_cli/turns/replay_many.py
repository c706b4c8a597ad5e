"""Executes many turns again: shows what it would do, queues them at a rate, and follows them to their ends."""

import asyncio
import json
from dataclasses import dataclass, replace

import typer

from pallas_bus.transport.connection import Bus
from pallas_calls.pace import Pace
from pallas_calls.replay_choice import choose_replays
from pallas_calls.replay_many import ManyReplays
from pallas_calls.replay_requests import ReplayRequests
from pallas_cli.confirming import confirm
from pallas_cli.operators import OPERATOR
from pallas_cli.plain_text import print_plain
from pallas_cli.turns.replay_preview import facts_of, preview_of
from pallas_cli.turns.replay_run import ReplayRun
from pallas_cli.turns.selection import ENDED, Selection, select
from pallas_contracts.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Wish:
    """How to replay: `rate` turns a second, with `model` instead of the agents' own if given.

    With `detach`, the command does not wait for the ends.
    """

    rate: float
    model: str | None
    detach: bool
    confirmed: bool
    as_json: bool


async def replay_many(bus: Bus, selection: Selection, wish: Wish) -> None:
    """Execute the selected turns again, each once. They can be interrupted and the command repeated.

    Raises:
        Refused: the selection is invalid or not confirmed.
        Exit: with code 1, if a turn could not be queued, or a new turn did not complete.
    """
    turns = await select(bus, _failed_by_default(selection), ENDED)
    choice = await choose_replays(bus, turns, model=wish.model, operator=OPERATOR)
    confirmed = wish.confirmed or not choice.turns
    confirm("these turns are executed again", yes=confirmed, as_json=wish.as_json, after=preview_of(choice, wish.rate))
    many = ManyReplays(bus, choice, Pace(wish.rate), ReplayRequests(bus, OPERATOR, wish.model))
    run = ReplayRun(bus, many, len(choice.turns))
    many.waits = run.waits
    try:
        await run.to_the_end(detach=wish.detach)
    except (asyncio.CancelledError, Unavailable):
        run.say(f"stopped: {run.progress}. What is queued goes on; the same command queues the rest.")
        raise
    if wish.as_json:
        print(json.dumps(facts_of(choice) | run.document(), indent=2))
    else:
        print_plain(run.summary)
    if many.refused or run.failed:
        raise typer.Exit(1)


def _failed_by_default(selection: Selection) -> Selection:
    """A filter that names no state is about failed turns."""
    wanted = selection.wanted
    return selection if wanted.state is not None else replace(selection, wanted=replace(wanted, state="failed"))
