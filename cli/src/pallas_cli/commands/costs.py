"""`pallas costs`: what models have cost, from the log."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pallas_cli.broker import OnBroker, on_broker
from pallas_cli.completing import complete_team
from pallas_cli.moments import is_moment


@on_broker
def costs(
    on: OnBroker,
    by: Annotated[
        Literal["agent", "team", "caller", "model", "day"], typer.Option(help="By what calls are added up.")
    ] = "agent",
    since: Annotated[
        str,
        typer.Option(
            help="Start of the period: a time span before now (30m, 2h, 7d) or an ISO 8601 time.", callback=is_moment
        ),
    ] = "7d",
    until: Annotated[
        str | None, typer.Option(help="End of the period: a time span before now or a time.", callback=is_moment)
    ] = None,
    team: Annotated[str | None, typer.Option(help="Only this team.", autocompletion=complete_team)] = None,
    caller: Annotated[str | None, typer.Option(help="Only callers whose name contains this.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help="Price all calls by this table, not by the prices at the time of the calls.")
    ] = None,
) -> None:
    """Print tokens and costs of models, added up from the log. Lost attempts and sub-agents are included."""
    from pallas_cli.costs import show_costs

    wanted = {"by": by, "since": since, "until": until, "team": team, "caller": caller}
    on.run(show_costs, **wanted, prices=prices, doing="reading the log")
