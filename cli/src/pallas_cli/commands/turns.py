"""`pallas turns`: turns, read from the turn log."""

import sys
from functools import partial
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, run_on
from pallas_cli.completing import complete_team, complete_turn
from pallas_cli.confirming import Yes, confirm
from pallas_cli.plain_text import print_plain

app = typer.Typer(no_args_is_help=True, help="Turns, read from the turn log.")

Team = Annotated[str | None, typer.Option(help="Only this team.", autocompletion=complete_team)]
Agent = Annotated[str | None, typer.Option(help="Only agents of this name.")]
Caller = Annotated[str | None, typer.Option(help="Only callers whose name contains this.")]
Conversation = Annotated[
    str | None, typer.Option(help="Only this conversation. The id is the caller's `conversation_id`.")
]
Task = Annotated[str | None, typer.Option(help="Only this task. The id is the caller's `task_id`.")]
Until = Annotated[str | None, typer.Option(help="End of the period: a time span before now or an ISO 8601 time.")]
TurnName = Annotated[str, typer.Argument(metavar="TURN", help="Id of the turn.", autocompletion=complete_turn)]


@app.command("list")
def list_turns(
    since: Annotated[
        str, typer.Option(help="Start of the period: a time span before now (30m, 2h, 7d) or an ISO 8601 time.")
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
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List turns that wait or run, and turns with messages in the period."""
    from pallas_cli.turns.listing import filter_of, show_turns

    given = {"team": team, "agent": agent, "caller": caller, "state": state, "conversation": conversation, "task": task}
    wanted = filter_of(**given, since=since, until=until, data=data)
    run_on(nats, data, partial(show_turns, wanted=wanted, limit=limit, as_json=as_json))


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
    """Show the timeline of one turn: wait, attempts, model and tool calls with their durations, outcome."""
    from pallas_cli.turns.show import show_turn

    run_on(nats, data, partial(show_turn, turn_id=turn, content=content, as_json=as_json))


@app.command()
def trace(turn: TurnName, nats: NatsUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Draw the trace of one turn as a tree: queue, attempts, agents, model and tool calls."""
    from pallas_cli.turns.tree import trace_turn

    run_on(nats, data, partial(trace_turn, turn_id=turn, as_json=as_json))


@app.command()
def cancel(turn: TurnName, nats: NatsUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Cancel a turn that waits or runs."""
    from pallas_cli.turns.cancel import cancel as cancel_turn

    run_on(nats, data, partial(cancel_turn, turn_id=turn, as_json=as_json))


@app.command()
def forget(
    turn: Annotated[
        str | None, typer.Option(metavar="ID", help="Forget this turn.", autocompletion=complete_turn)
    ] = None,
    conversation: Annotated[
        str | None,
        typer.Option(help="Forget all turns of this conversation. The id is the caller's `conversation_id`."),
    ] = None,
    yes: Yes = False,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Erase the content of turns that have ended. Exit code 1 if one of them still waits or runs."""
    from pallas_cli.refused import WrongUsage
    from pallas_cli.turns.forget import forget as forget_turns
    from pallas_cli.turns.forget import hash_of

    if (turn is None) == (conversation is None):
        raise WrongUsage("pass either --turn or --conversation")
    hashed = hash_of(conversation, data)
    what = f"turn {turn}" if turn is not None else "all turns of this conversation"
    confirm(f"the content of {what} is erased", yes=yes, as_json=as_json)
    run_on(nats, data, partial(forget_turns, turn_id=turn, conversation=hashed, as_json=as_json))


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
        str | None, typer.Option(help="Start with messages stored since then: 30m or an ISO 8601 time.")
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


@app.command()
def replay(
    turn: TurnName,
    agent: Annotated[str | None, typer.Option(help="Send the request to this agent of the same team instead.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="REF", help="Use this model (`offline` or PROVIDER.NAME) instead.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Print both answers and timelines side by side.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Execute it again even if it called tools that may have side effects.")
    ] = False,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Execute an ended turn again as a new turn. Ctrl-C cancels the new turn. Exit code 1 if it does not complete."""
    from pallas_cli.turns.replay import replay_turn
    from pallas_cli.turns.replay_plan import Unconfirmed

    again = partial(replay_turn, turn_id=turn, agent=agent, model=model, compare=compare, as_json=as_json)
    try:
        run_on(nats, data, partial(again, confirmed=yes), doing=None)
    except Unconfirmed as question:
        if as_json or not sys.stdin.isatty():
            raise
        print_plain(f"{question.lines[0]}.", err=True)
        typer.confirm("Execute it again?", abort=True, err=True)
        run_on(nats, data, partial(again, confirmed=True), doing=None)
