"""`pallas turns`: turns, read from the turn log."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, run_on
from pallas_cli.commands.turn_options import (
    Agent,
    Caller,
    Conversation,
    Ended,
    Since,
    Task,
    Team,
    TurnName,
    TurnNames,
    Until,
)
from pallas_cli.commands.turns_replay import replay
from pallas_cli.completing import complete_turn
from pallas_cli.confirming import Yes, confirm
from pallas_cli.moments import is_moment
from pallas_cli.paging import After

app = typer.Typer(no_args_is_help=True, help="Turns, read from the turn log.")


@app.command("list")
def list_turns(
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
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List turns: those that wait or run, and those of the period."""
    from pallas_cli.turns.listing import filter_of, show_turns

    given = {"team": team, "agent": agent, "caller": caller, "state": state, "conversation": conversation, "task": task}
    wanted = filter_of(**given, since=since, until=until, data=data)
    run_on(nats, data, partial(show_turns, wanted=wanted, limit=limit, after=after, as_json=as_json))


@app.command()
def show(
    turn: TurnName,
    content: Annotated[
        bool, typer.Option("--content", help="Print request and answer too, while they are kept.")
    ] = False,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show the timeline of one turn, with the duration of each step."""
    from pallas_cli.turns.show import show_turn

    run_on(nats, data, partial(show_turn, turn_id=turn, content=content, as_json=as_json))


@app.command()
def trace(turn: TurnName, nats: NatsUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Draw one turn as a tree of its steps.

    The steps are its wait in the queue, its attempts, and the calls of agents, models and tools.
    """
    from pallas_cli.turns.tree import trace_turn

    run_on(nats, data, partial(trace_turn, turn_id=turn, as_json=as_json))


@app.command()
def cancel(
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
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Cancel turns that wait or run. One TURN, several, or all that match the options, after a confirmation."""
    from pallas_cli.turns.cancel import cancel as cancel_turn
    from pallas_cli.turns.many import cancel_many
    from pallas_cli.turns.selection import selection_of

    given = {"team": team, "agent": agent, "caller": caller, "state": state, "conversation": conversation, "task": task}
    selection = selection_of(turns or (), given | {"since": since, "until": until}, data=data)
    if len(selection.ids) == 1:
        run_on(nats, data, partial(cancel_turn, turn_id=selection.ids[0], as_json=as_json))
    else:
        run_on(nats, data, partial(cancel_many, selection=selection, confirmed=yes, as_json=as_json), doing=None)


@app.command()
def forget(
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
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Erase the content of turns that have ended. One TURN, several, or all that match, after a confirmation.

    Exit code 1 if one of them still waits or runs: its content is not erased.
    """
    from pallas_cli.turns.forget import forget as forget_turns
    from pallas_cli.turns.forget import hash_of
    from pallas_cli.turns.many import forget_many
    from pallas_cli.turns.selection import selection_of

    others = {"team": team, "agent": agent, "caller": caller, "state": state, "task": task}
    others |= {"since": since, "until": until}
    names = [*(turns or ()), *([turn] if turn is not None else [])]
    selection = selection_of(names, others | {"conversation": conversation}, data=data)
    if len(names) == 1 or (conversation is not None and not any(others.values())):
        name, hashed = next(iter(names), None), hash_of(conversation, data)
        what = f"turn {name}" if name is not None else "all turns of this conversation"
        confirm(f"the content of {what} is erased", yes=yes, as_json=as_json)
        run_on(nats, data, partial(forget_turns, turn_id=name, conversation=hashed, as_json=as_json))
    else:
        run_on(nats, data, partial(forget_many, selection=selection, confirmed=yes, as_json=as_json), doing=None)


@app.command()
def tail(
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
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Print the events of turns live, until Ctrl-C or --until. With --json, print one document a line."""
    from pallas_cli.turns.listing import filter_of
    from pallas_cli.turns.tail import tail as follow

    given = {"team": team, "agent": agent, "caller": caller, "state": state, "conversation": conversation, "task": task}
    wanted = filter_of(**given, since=since, until=until, data=data)
    run_on(nats, data, partial(follow, wanted=wanted, as_json=as_json), doing=None)


app.command()(replay)


@app.command()
def reconcile(
    turns: Annotated[
        list[str] | None,
        typer.Argument(metavar="TURN", help="Ids of the turns to decide about.", autocompletion=complete_turn),
    ] = None,
    decide: Annotated[
        str | None,
        typer.Option(help="run (when the hold is released), cancel, or done (end it without executing it)."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Decide about all turns that are still to be decided.")
    ] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Take turns again. Every turn of the backup has to be decided.")
    ] = False,
    yes: Yes = False,
    by: Annotated[str | None, typer.Option(help="Who decides. [default: your account and machine]")] = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """After a restore: decide about turns that had not ended. Without options they are listed.

    Until then no turn is executed. Each decision is stored in the log.
    """
    from pallas_cli.refused import WrongUsage
    from pallas_cli.turns import reconcile as work

    words: dict[str, work.Word] = {each: each for each in work.WORDS}
    word = words.get(decide or "")
    if decide is not None and word is None:
        raise WrongUsage(f"--decide {decide!r} is not one of {', '.join(work.WORDS)}")
    if (word is not None) != bool(turns or everything) or (turns and everything):
        raise WrongUsage("pass --decide together with the turns, or with --all")
    if word == "run":
        confirm("these turns are executed, whose effects may have happened already", yes=yes, as_json=as_json)
    if word is not None:
        deciding = partial(
            work.decide_about, names=turns or (), word=word, everything=everything, by=by, as_json=as_json
        )
        run_on(nats, data, deciding)
    if release:
        run_on(nats, data, partial(work.release, by=by, as_json=as_json))
    elif word is None:
        run_on(nats, data, partial(work.show, as_json=as_json))
