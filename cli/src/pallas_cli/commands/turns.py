"""`pallas turns`: what happened and happens to turns, from the log."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_NATS, AsJson, NatsUrl, run_on

app = typer.Typer(no_args_is_help=True, help="Turns, as the log has them.")

Team = Annotated[str | None, typer.Option(help="Only this team.")]
Agent = Annotated[str | None, typer.Option(help="Only agents of this name.")]
TurnName = Annotated[str, typer.Argument(metavar="TURN", help="The turn's id.")]


@app.command("list")
def list_turns(
    since: Annotated[str, typer.Option(help="From when on: a span (30m, 2h, 7d) or an ISO 8601 time.")] = "1h",
    team: Team = None,
    agent: Agent = None,
    state: Annotated[
        str | None, typer.Option(help="waiting, running, completed, failed, cancelled or input_required.")
    ] = None,
    caller: Annotated[str | None, typer.Option(help="Only callers whose name contains this.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 50,
    nats: NatsUrl = DEFAULT_NATS,
    as_json: AsJson = False,
) -> None:
    """List turns."""
    from pallas_cli.turns_view import show_turns

    filters = {"since": since, "team": team, "agent": agent, "state": state, "caller": caller, "limit": limit}
    run_on(nats, partial(show_turns, **filters, as_json=as_json))


@app.command()
def show(turn: TurnName, nats: NatsUrl = DEFAULT_NATS, as_json: AsJson = False) -> None:
    """Show one turn's timeline: waiting, attempts, model and tool calls, outcome."""
    from pallas_cli.turns_view import show_turn

    run_on(nats, partial(show_turn, turn_id=turn, as_json=as_json))


@app.command()
def cancel(turn: TurnName, nats: NatsUrl = DEFAULT_NATS, as_json: AsJson = False) -> None:
    """Cancel a turn that waits or runs; it stays cancelled."""
    from pallas_cli.turns_view import cancel as cancel_turn

    run_on(nats, partial(cancel_turn, turn_id=turn, as_json=as_json))


@app.command()
def tail(team: Team = None, agent: Agent = None, nats: NatsUrl = DEFAULT_NATS, as_json: AsJson = False) -> None:
    """Print what happens to turns, live, until Ctrl-C. With --json, a document a line."""
    from pallas_cli.turns_tail import tail as follow

    run_on(nats, partial(follow, team=team, agent=agent, as_json=as_json))
