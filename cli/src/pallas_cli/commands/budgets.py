"""`pallas budgets`: what teams and callers may spend on models in a day."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, run_on
from pallas_cli.completing import complete_team
from pallas_cli.confirming import Yes, confirm
from pallas_cli.paging import After, Limit, Page

app = typer.Typer(no_args_is_help=True, help="What teams and callers may spend on models in a day (UTC).")

Team = Annotated[str | None, typer.Option(help="The budget of this team.", autocompletion=complete_team)]
Caller = Annotated[
    str | None,
    typer.Option(metavar="TYPE:ID", help="The budget of this caller over all teams, as `turns list` has it."),
]
Every = Annotated[
    str | None, typer.Option(metavar="team|caller", help="The budget of each team, or caller, without one of its own.")
]


@app.command("list")
def list_budgets(
    limit: Limit = None,
    after: After = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List the budgets that are set here, with today's spending."""
    from pallas_cli.costs.budgets import show_budgets

    run_on(nats, data, partial(show_budgets, page=Page(limit, after), as_json=as_json))


@app.command()
def show(
    team: Team = None,
    caller: Caller = None,
    every: Every = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show one budget, with what was spent of it today."""
    from pallas_cli.costs.budgets import show_budget, whose_of

    run_on(nats, data, partial(show_budget, whose=whose_of(team, caller, every), as_json=as_json))


@app.command("set")
def set_one(
    team: Team = None,
    caller: Caller = None,
    every: Every = None,
    tokens_per_day: Annotated[int | None, typer.Option(help="Input and output tokens in a day; 0 allows none.")] = None,
    money_per_day: Annotated[float | None, typer.Option(help="Money in a day, in --currency.")] = None,
    currency: Annotated[
        str,
        typer.Option(help="Currency of --money-per-day and of the price table: three letters, such as EUR."),
    ] = "USD",
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Set a budget, in place of the one before. It holds within a moment, at every gateway."""
    from pallas_cli.costs.budgets import check_limits, set_budget, whose_of

    check_limits(tokens_per_day, money_per_day, currency)
    whose, limits = whose_of(team, caller, every), {"tokens_per_day": tokens_per_day, "money_per_day": money_per_day}
    run_on(nats, data, partial(set_budget, whose=whose, **limits, currency=currency, as_json=as_json))


@app.command()
def delete(
    team: Team = None,
    caller: Caller = None,
    every: Every = None,
    yes: Yes = False,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Delete a budget. Calls are not limited by it any more."""
    from pallas_cli.costs.budgets import delete_budget, whose_of

    whose = whose_of(team, caller, every)
    confirm(f"the budget of {whose} is deleted", yes=yes, as_json=as_json)
    run_on(nats, data, partial(delete_budget, whose=whose, as_json=as_json))
