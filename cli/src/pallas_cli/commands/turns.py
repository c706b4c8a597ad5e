"""`pallas turns`: turns, read from the turn log."""

from functools import partial
from typing import Annotated, Any

import typer

from pallas_cli.broker import OnBroker, on_broker, run_on
from pallas_cli.completing import complete_team, complete_turn
from pallas_cli.moments import is_moment, rate_of
from pallas_cli.options import After, Yes, confirm
from pallas_cli.refused import WrongUsage
from pallas_cli.turns import reconcile as work
from pallas_cli.turns.ending import cancel as cancel_turn
from pallas_cli.turns.ending import cancel_many, forget_many, hash_of
from pallas_cli.turns.ending import forget as forget_turns
from pallas_cli.turns.listing import check_model, filter_of, selection_of, show_turns
from pallas_cli.turns.replay import Unconfirmed, replay_turn
from pallas_cli.turns.replays import Wish, replay_many
from pallas_cli.turns.show import show_turn, trace_turn
from pallas_cli.turns.tail import tail as follow

Team = Annotated[str | None, typer.Option(help="Only this team.", autocompletion=complete_team)]
Agent = Annotated[str | None, typer.Option(help="Only agents of this name.")]
Caller = Annotated[str | None, typer.Option(help="Only callers whose name contains this.")]
Conversation = Annotated[
    str | None, typer.Option(help="Only this conversation. The id is the caller's `conversation_id`.")
]
Task = Annotated[str | None, typer.Option(help="Only this task. The id is the caller's `task_id`.")]
Until = Annotated[
    str | None, typer.Option(help="End of the period: a time span before now or an ISO 8601 time.", callback=is_moment)
]
TurnName = Annotated[str, typer.Argument(metavar="TURN", help="Id of the turn.", autocompletion=complete_turn)]
TurnNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="TURN", help="Ids of turns, instead of options.", autocompletion=complete_turn),
]
Since = Annotated[
    str | None,
    typer.Option(
        help="Start of the period: a time span before now (30m, 2h, 7d) or an ISO 8601 time. Default: all.",
        callback=is_moment,
    ),
]
Ended = Annotated[str | None, typer.Option(help="Only this state: completed, failed, cancelled or input_required.")]

app = typer.Typer()


@app.command("list")
@on_broker
def list_turns(
    on: OnBroker,
    since: Annotated[
        str,
        typer.Option(
            help="Start of the period: a time span before now (30m, 2h, 7d) or an ISO 8601 time.", callback=is_moment
        ),
    ] = "1h",
    until: Until = None,
    team: Team = None,
    agent: Agent = None,
    caller: Caller = None,
    state: Annotated[
        str | None,
        typer.Option(help="Only this state: waiting, running, completed, failed, cancelled or input_required."),
    ] = None,
    conversation: Conversation = None,
    task: Task = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of turns; the latest are listed.")] = 50,
    after: After = None,
) -> None:
    """List turns: those that wait or run, and those of the period."""
    given = {"team": team, "agent": agent, "caller": caller, "state": state, "conversation": conversation, "task": task}
    wanted = filter_of(**given, since=since, until=until, data=on.data)
    on.run(show_turns, wanted=wanted, limit=limit, after=after)


@app.command()
@on_broker
def show(
    on: OnBroker,
    turn: TurnName,
    content: Annotated[
        bool, typer.Option("--content", help="Print request and answer too, while they are kept.")
    ] = False,
) -> None:
    """Show the timeline of one turn, with the duration of each step."""
    on.run(show_turn, turn_id=turn, content=content)


@app.command()
@on_broker
def trace(on: OnBroker, turn: TurnName) -> None:
    """Draw one turn as a tree of its steps.

    The steps are its wait in the queue, its attempts, and the calls of agents, models and tools.
    """
    on.run(trace_turn, turn_id=turn)


@app.command()
@on_broker
def cancel(
    on: OnBroker,
    turns: TurnNames = None,
    since: Since = None,
    until: Until = None,
    team: Team = None,
    agent: Agent = None,
    caller: Caller = None,
    state: Annotated[str | None, typer.Option(help="Only this state: waiting or running.")] = None,
    conversation: Conversation = None,
    task: Task = None,
    yes: Yes = False,
) -> None:
    """Cancel turns that wait or run. One TURN, several, or all that match the options, after a confirmation."""
    given = {"team": team, "agent": agent, "caller": caller, "state": state, "conversation": conversation, "task": task}
    selection = selection_of(turns or (), given | {"since": since, "until": until}, data=on.data)
    if len(selection.ids) == 1:
        on.run(cancel_turn, turn_id=selection.ids[0])
    else:
        on.run(cancel_many, selection=selection, confirmed=yes, doing=None)


@app.command()
@on_broker
def forget(
    on: OnBroker,
    turns: TurnNames = None,
    turn: Annotated[
        str | None, typer.Option(metavar="ID", help="Forget this turn.", autocompletion=complete_turn)
    ] = None,
    since: Since = None,
    until: Until = None,
    team: Team = None,
    agent: Agent = None,
    caller: Caller = None,
    state: Ended = None,
    conversation: Conversation = None,
    task: Task = None,
    yes: Yes = False,
) -> None:
    """Erase the content of turns that have ended. One TURN, several, or all that match, after a confirmation.

    Exit code 1 if one of them still waits or runs: its content is not erased.
    """
    others = {"team": team, "agent": agent, "caller": caller, "state": state, "task": task}
    others |= {"since": since, "until": until}
    names = [*(turns or ()), *([turn] if turn is not None else [])]
    selection = selection_of(names, others | {"conversation": conversation}, data=on.data)
    if len(names) == 1 or (conversation is not None and not any(others.values())):
        name, hashed = next(iter(names), None), hash_of(conversation, on.data)
        what = f"turn {name}" if name is not None else "all turns of this conversation"
        confirm(f"the content of {what} is erased", yes=yes, as_json=on.as_json)
        on.run(forget_turns, turn_id=name, conversation=hashed)
    else:
        on.run(forget_many, selection=selection, confirmed=yes, doing=None)


@app.command()
@on_broker
def tail(
    on: OnBroker,
    team: Team = None,
    agent: Agent = None,
    caller: Caller = None,
    state: Annotated[
        str | None, typer.Option(help="Only messages of this state: waiting, running, or an outcome (failed, ...).")
    ] = None,
    conversation: Conversation = None,
    task: Task = None,
    since: Annotated[
        str | None,
        typer.Option(help="Start with messages stored since then: 30m or an ISO 8601 time.", callback=is_moment),
    ] = None,
    until: Until = None,
) -> None:
    """Print the events of turns live, until Ctrl-C or --until. With --json, print one document a line."""
    given = {"team": team, "agent": agent, "caller": caller, "state": state, "conversation": conversation, "task": task}
    wanted = filter_of(**given, since=since, until=until, data=on.data)
    on.run(follow, wanted=wanted, doing=None)


@app.command()
@on_broker
def reconcile(
    on: OnBroker,
    turns: Annotated[
        list[str] | None,
        typer.Argument(metavar="TURN", help="Ids of the turns to decide about.", autocompletion=complete_turn),
    ] = None,
    decide: Annotated[
        str | None, typer.Option(help="run (when the hold is released), cancel, or done (end it without executing it).")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Decide about all turns that are still to be decided.")
    ] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Take turns again. Every turn of the backup has to be decided.")
    ] = False,
    yes: Yes = False,
    by: Annotated[str | None, typer.Option(help="Who decides. [default: your account and machine]")] = None,
) -> None:
    """After a restore: decide about turns that had not ended. Without options they are listed.

    Until then no turn is executed. Each decision is stored in the log.
    """
    words: dict[str, work.Word] = {each: each for each in work.WORDS}
    word = words.get(decide or "")
    if decide is not None and word is None:
        raise WrongUsage(f"--decide {decide!r} is not one of {', '.join(work.WORDS)}")
    if (word is not None) != bool(turns or everything) or (turns and everything):
        raise WrongUsage("pass --decide together with the turns, or with --all")
    if word == "run":
        confirm("these turns are executed, whose effects may have happened already", yes=yes, as_json=on.as_json)
    if word is not None:
        on.run(work.decide_about, names=turns or (), word=word, everything=everything, by=by)
    if release:
        on.run(work.release, by=by)
    elif word is None:
        on.run(work.show)


@app.command()
@on_broker
def replay(
    on: OnBroker,
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
) -> None:
    """Execute ended turns again as new turns. One TURN, several, or all that match the options.

    One TURN is followed, and Ctrl-C cancels the new turn. Many are executed again once each, however often the command
    is run. Exit code 1 if a new turn does not complete.
    """
    single = turns is not None and len(turns) == 1 and not detach and rate is None
    given = {"team": team, "caller": caller, "state": state, "conversation": conversation, "task": task}
    given |= {"since": since, "until": until} | ({} if single else {"agent": agent})
    selection = selection_of(turns or (), given, data=on.data)
    check_model(model)
    if single:
        one: dict[str, Any] = {"turn_id": selection.ids[0], "agent": agent, "model": model, "compare": compare}
        try:
            on.run(replay_turn, doing=None, **one, confirmed=yes)
        except Unconfirmed as question:
            confirm("its side effects may be repeated", yes=False, as_json=on.as_json, after=question.lines)
            on.run(replay_turn, doing=None, **one, confirmed=True)
    elif compare:
        raise WrongUsage("--compare is for one turn")
    else:
        wish = Wish(rate_of(rate or "10/s"), model, detach=detach, confirmed=yes, as_json=on.as_json)
        run_on(on.nats, on.data, partial(replay_many, selection=selection, wish=wish), doing=None)
