"""`pallas turns`: turns, read from the turn log."""

from functools import partial
from typing import Annotated

import typer

from pallas_bus.connection import Bus
from pallas_cli.command import Made, command
from pallas_cli.moments import rate_of
from pallas_cli.options import Yes, confirm
from pallas_cli.refused import WrongUsage
from pallas_cli.turns.ending import cancel, forget
from pallas_cli.turns.listing import TurnOptions, check_model, show_turns
from pallas_cli.turns.reconcile import reconcile
from pallas_cli.turns.replay import Unconfirmed, replay_turn
from pallas_cli.turns.replays import Wish, replay_many
from pallas_cli.turns.show import show_turn, trace_turn
from pallas_cli.turns.tail import tail

app = typer.Typer()

command(app, "list")(show_turns)
command(app, "show")(show_turn)
command(app, "trace")(trace_turn)
command(app, doing=None)(cancel)
command(app, doing=None)(forget)
command(app, doing=None)(tail)
command(app)(reconcile)


@command(app, doing=None)
async def replay(
    bus: Bus,
    *,
    options: Annotated[TurnOptions, Made(TurnOptions)],
    model: Annotated[
        str | None, typer.Option(metavar="REF", help="Use this model (`offline` or PROVIDER.NAME) instead.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Print both answers and timelines side by side. For one TURN.")
    ] = False,
    rate: Annotated[
        str | None, typer.Option(help="How fast many turns are queued: 5/s, 90/m.", show_default="10/s")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Queue the turns, and do not wait for their ends.")] = False,
    yes: Yes = False,
    as_json: bool,
) -> None:
    """Execute ended turns again as new turns. One TURN, several, or all that match the options: failed ones by default.

    With one TURN, --agent names another agent of its team that gets the request. It is followed, and Ctrl-C cancels
    the new turn. Many are executed again once each, however often the command is run. Exit code 1 if a new turn does
    not complete.
    """
    single = options.turns is not None and len(options.turns) == 1 and not detach and rate is None
    selection = options.selection(agent=None) if single else options.selection()
    check_model(model)
    if not single:
        if compare:
            raise WrongUsage("--compare is for one turn")
        wish = Wish(rate_of(rate or "10/s"), model, detach=detach, confirmed=yes, as_json=as_json)
        await replay_many(bus, selection, wish)
        return
    turn, agent = selection.ids[0], options.agent
    again = partial(replay_turn, bus, turn, agent=agent, model=model, compare=compare, as_json=as_json)
    try:
        await again(confirmed=yes)
    except Unconfirmed as question:
        confirm("its side effects may be repeated", yes=False, as_json=as_json, after=question.lines)
        await again(confirmed=True)
