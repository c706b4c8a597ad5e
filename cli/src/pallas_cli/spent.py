"""What was spent, as plain values and as text."""

from typing import Any

from pallas_contracts.costs import NANOS, Spending, money_text


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
