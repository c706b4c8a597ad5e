"""`pallas costs`: what models have cost, from the log."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, run_on
from pallas_cli.completing import complete_team


def costs(
    by: Annotated[str, typer.Option(help="Add up by team, agent, caller, model or day.")] = "agent",
    since: Annotated[
        str, typer.Option(help="Start of the period: a time span before now (30m, 2h, 7d) or an ISO 8601 time.")
    ] = "7d",
    until: Annotated[str | None, typer.Option(help="End of the period: a time span before now or a time.")] = None,
    team: Annotated[str | None, typer.Option(help="Only this team.", autocompletion=complete_team)] = None,
    caller: Annotated[str | None, typer.Option(help="Only callers whose name contains this.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help="Price all calls by this table, not by the prices at the time of the calls.")
    ] = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Print tokens and costs of models, added up from the log. Lost attempts and sub-agents are included."""
    from pallas_cli.costs.report import show_costs

    wanted = {"by": by, "since": since, "until": until, "team": team, "caller": caller}
    run_on(nats, data, partial(show_costs, **wanted, prices=prices, as_json=as_json), doing="reading the log")
