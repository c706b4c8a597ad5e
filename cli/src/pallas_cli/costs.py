"""What models have cost, from the log."""

import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pallas_bus.connection import Bus
from pallas_cli.moments import since_words, span_of
from pallas_cli.plain_text import print_plain, print_table
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.costs import NANOS, NO_SPENDING, Spending, model_ref, money_text, total_of
from pallas_contracts.turns import ModelCalled, TurnEvents
from pallas_turns.history.spending import read_calls, spending_of

if TYPE_CHECKING:
    from pallas_teams.prices import PriceTable

NAMES: Mapping[str, Callable[[TurnEvents, ModelCalled], str]] = {
    "team": lambda message, _call: message.team,
    "agent": lambda message, call: f"{message.team}/{call.agent}",
    "caller": lambda _message, call: call.caller or "unknown",
    "model": lambda _message, call: model_ref(call.provider, call.model),
    "day": lambda message, call: spending_of(message.team, call).day,
}
"""By what calls can be added up. A sub-agent counts by itself."""


async def show_costs(
    bus: Bus,
    *,
    by: str,
    since: str,
    until: str | None,
    team: str | None,
    caller: str | None,
    prices: Path | None,
    as_json: bool,
) -> None:
    """Print what was spent in a time: most expensive first, or by day.

    Raises:
        Refused: an option is invalid.
    """
    if by not in NAMES:
        raise WrongUsage(f"--by {by!r} is not one of {', '.join(NAMES)}")
    begin, end = span_of(since, until)
    table = _prices(prices)
    sums = await _sums(bus, NAMES[by], begin, end, team, caller, table)
    rows = sorted(sums.items(), key=lambda row: row[0] if by == "day" else (_weight(row[1]), row[0]))
    if as_json:
        print(json.dumps([{by: name, **document_of(total)} for name, total in rows], indent=2, ensure_ascii=False))
    elif not rows:
        print_plain(f"No calls of models {since_words(since)}.")
    else:
        headers = [by, "calls", "input", "cached", "output", "cost", "unpriced calls"]
        print_table(headers, [_cells(name, each) for name, each in [*rows, ("total", total_of(sums.values()))]])


def document_of(spent: Spending) -> dict[str, Any]:
    """Sums as plain values; `cost` is units by currency."""
    return {
        "calls": spent.calls,
        "input_tokens": spent.input_tokens,
        "cached_tokens": spent.cached_tokens,
        "output_tokens": spent.output_tokens,
        "cost": {currency: nanos / NANOS for currency, nanos in sorted(spent.money.items())},
        "unpriced_calls": spent.unpriced_calls,
    }


def cost_text(spent: Spending) -> str:
    """What was spent in each currency; `unpriced` if no call had a price, `-` if there was none."""
    known = ", ".join(money_text(nanos, currency) for currency, nanos in sorted(spent.money.items()))
    return known or ("unpriced" if spent.unpriced_calls else "-")


def _prices(path: Path | None) -> "PriceTable | None":
    from pallas_teams import TeamFaults
    from pallas_teams.prices import load_prices

    try:
        return load_prices(path) if path is not None else None
    except TeamFaults as error:
        raise Refused(*map(str, error.faults)) from error


async def _sums(
    bus: Bus,
    name_of: Callable[[TurnEvents, ModelCalled], str],
    since: datetime | None,
    until: datetime | None,
    team: str | None,
    caller: str | None,
    prices: "PriceTable | None",
) -> dict[str, Spending]:
    ids = {"team": team} if team is not None else {}
    sums: dict[str, Spending] = {}
    async with aclosing(read_calls(bus, since=since, until=until, **ids)) as calls:
        async for message, call in calls:
            if caller is None or caller in call.caller:
                priced = call if prices is None else _priced(call, prices)
                name = name_of(message, call)
                sums[name] = sums.get(name, NO_SPENDING).plus(spending_of(message.team, priced))
    return sums


def _priced(call: ModelCalled, prices: "PriceTable") -> ModelCalled:
    cost = prices.cost(call.provider, call.model, call.input_tokens, call.output_tokens, call.cached_tokens)
    return call.model_copy(update={"cost": cost})


def _weight(spent: Spending) -> tuple[int, int]:
    """What is sorted by: money, then tokens, the most first. Currencies are not converted."""
    return -max(spent.money.values(), default=0), -spent.tokens


def _cells(name: str, spent: Spending) -> list[str]:
    counts = (spent.calls, spent.input_tokens, spent.cached_tokens, spent.output_tokens)
    return [name, *(f"{count:,}" for count in counts), cost_text(spent), f"{spent.unpriced_calls:,}"]
