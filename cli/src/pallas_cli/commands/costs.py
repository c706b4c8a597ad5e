"""`pallas costs`: what models have cost, from the log."""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pallas_bus.connection import Bus
from pallas_cli.command import Made, command
from pallas_cli.filters import Caller, Since, Team, Until
from pallas_cli.moments import since_words, span_of
from pallas_cli.plain_text import print_list
from pallas_cli.refused import Refused
from pallas_cli.spent import cost_text, document_of
from pallas_contracts.costs import NO_SPENDING, Spending, model_ref, total_of
from pallas_contracts.turns import ModelCalled, TurnEvents
from pallas_turns.history.spending import read_calls, spending_of

if TYPE_CHECKING:
    from pallas_teams.prices import PriceTable

app = typer.Typer(add_completion=False)

By = Literal["agent", "team", "caller", "model", "day"]

NAMES: Mapping[By, Callable[[TurnEvents, ModelCalled], str]] = {
    "team": lambda message, _call: message.team,
    "agent": lambda message, call: f"{message.team}/{call.agent}",
    "caller": lambda _message, call: call.caller or "unknown",
    "model": lambda _message, call: model_ref(call.provider, call.model),
    "day": lambda message, call: spending_of(message.team, call).day,
}
"""By what calls can be added up. A sub-agent counts by itself."""


@dataclass(frozen=True, slots=True)
class Period:
    """The time that is meant, as the user typed it, and its start and end; None: no limit."""

    since: str
    begin: datetime | None
    end: datetime | None


def period_of(since: Since = "7d", until: Until = None) -> Period:
    """The time that the options name."""
    return Period(since, *span_of(since, until))


@command(app, "costs", doing="reading the log")
async def show_costs(
    bus: Bus,
    *,
    by: Annotated[By, typer.Option(help="By what calls are added up.")] = "agent",
    period: Annotated[Period, Made(period_of)],
    team: Team = None,
    caller: Caller = None,
    prices: Annotated[
        Path | None, typer.Option(help="Price all calls by this table, not by the prices at the time of the calls.")
    ] = None,
    as_json: bool,
) -> None:
    """Print tokens and costs of models, added up from the log. Lost attempts and sub-agents are included."""
    table = _prices(prices)
    sums = dict[str, Spending]()
    ids = {"team": team} if team is not None else {}
    async with aclosing(read_calls(bus, since=period.begin, until=period.end, **ids)) as calls:
        async for message, call in calls:
            if caller is None or caller in call.caller:
                priced = call if table is None else _priced(call, table)
                name = NAMES[by](message, call)
                sums[name] = sums.get(name, NO_SPENDING).plus(spending_of(message.team, priced))
    rows = sorted(sums.items(), key=lambda row: row[0] if by == "day" else (_weight(row[1]), row[0]))
    headers = [by, "calls", "input", "cached", "output", "cost", "unpriced calls"]
    documents = [{by: name, **document_of(total)} for name, total in rows]
    cells = [_cells(name, each) for name, each in [*rows, ("total", total_of(sums.values()))]]
    print_list(documents, headers, cells, nothing=f"No calls of models {since_words(period.since)}.", as_json=as_json)


def _prices(path: Path | None) -> "PriceTable | None":
    from pallas_teams import TeamFaults
    from pallas_teams.prices import load_prices

    try:
        return load_prices(path) if path is not None else None
    except TeamFaults as error:
        raise Refused(*map(str, error.faults)) from error


def _priced(call: ModelCalled, prices: "PriceTable") -> ModelCalled:
    cost = prices.cost(call.provider, call.model, call.input_tokens, call.output_tokens, call.cached_tokens)
    return call.model_copy(update={"cost": cost})


def _weight(spent: Spending) -> tuple[int, int]:
    """What is sorted by: money, then tokens, the most first. Currencies are not converted."""
    return -max(spent.money.values(), default=0), -spent.tokens


def _cells(name: str, spent: Spending) -> list[str]:
    counts = (spent.calls, spent.input_tokens, spent.cached_tokens, spent.output_tokens)
    return [name, *(f"{count:,}" for count in counts), cost_text(spent), f"{spent.unpriced_calls:,}"]
