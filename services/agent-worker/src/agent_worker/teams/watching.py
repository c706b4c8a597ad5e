"""How what the agents of a worker do is recorded."""

from dataclasses import dataclass

from agent_worker.metrics import ModelMetrics
from pallas_teams.prices import NO_PRICES, PriceTable


@dataclass(frozen=True, slots=True)
class Watching:
    """With `trace_content`, spans contain prompts and answers. `prices` say what calls of models cost."""

    trace_content: bool = False
    prices: PriceTable = NO_PRICES
    metrics: ModelMetrics | None = None


UNWATCHED = Watching()
"""No prices, and nothing is counted."""
