"""`pallas turns replay`: one turn, which is followed, or many."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, run_on
from pallas_cli.commands.turn_options import Caller, Conversation, Since, Task, Team, TurnNames, Until
from pallas_cli.confirming import Yes, confirm

if TYPE_CHECKING:
    from pallas_bus.transport.connection import Bus


def replay(
    turns: TurnNames = None,
    since: Since = None,
    until: Until = None,
    team: Team = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Only agents of this name. With one TURN: send the request to this agent of its team instead."
        ),
    ] = None,
    caller: Caller = None,
    state: Annotated[
        str | None,
        typer.Option(help="Only this state: failed, completed, cancelled or input_required.", show_default="failed"),
    ] = None,
    conversation: Conversation = None,
    task: Task = None,
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
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Execute ended turns again as new turns. One TURN, several, or all that match the options.

    One TURN is followed, and Ctrl-C cancels the new turn. Many are executed again once each, however often the command
    is run. Exit code 1 if a new turn does not complete.
    """
    from pallas_cli.rates import rate_of
    from pallas_cli.refused import WrongUsage
    from pallas_cli.turns.replay_many import Wish, replay_many
    from pallas_cli.turns.selection import check_model, selection_of

    single = turns is not None and len(turns) == 1 and not detach and rate is None
    given = {"team": team, "caller": caller, "state": state, "conversation": conversation, "task": task}
    given |= {"since": since, "until": until} | ({} if single else {"agent": agent})
    selection = selection_of(turns or (), given, data=data)
    check_model(model)
    on = partial(run_on, nats, data, doing=None)
    if single:
        _replay_one(on, selection.ids[0], agent, model, compare=compare, yes=yes, as_json=as_json)
    elif compare:
        raise WrongUsage("--compare is for one turn")
    else:
        wish = Wish(rate_of(rate or "10/s"), model, detach=detach, confirmed=yes, as_json=as_json)
        on(partial(replay_many, selection=selection, wish=wish))


def _replay_one(
    on: Callable[[Callable[["Bus"], Awaitable[None]]], None],
    turn: str,
    agent: str | None,
    model: str | None,
    *,
    compare: bool,
    yes: bool,
    as_json: bool,
) -> None:
    from pallas_cli.turns.replay import replay_turn
    from pallas_cli.turns.replay_plan import Unconfirmed

    again = partial(replay_turn, turn_id=turn, agent=agent, model=model, compare=compare, as_json=as_json)
    try:
        on(partial(again, confirmed=yes))
    except Unconfirmed as question:
        confirm("its side effects may be repeated", yes=False, as_json=as_json, after=question.lines)
        on(partial(again, confirmed=True))
