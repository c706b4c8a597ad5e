"""What a worker records of its agents: content in spans, costs, metrics."""

from dataclasses import dataclass

from pallas_executor.agent_runtime import AgentRuntime
from pallas_executor.teams.metered import MeteredRuntime
from pallas_executor.teams.metrics import ModelMetrics
from pallas_teams.prices import NO_PRICES, PriceTable


@dataclass(frozen=True, slots=True)
class Watching:
    """With `trace_content`, spans contain prompts and answers. `prices` say what calls of models cost."""

    trace_content: bool = False
    prices: PriceTable = NO_PRICES
    metrics: ModelMetrics | None = None

    def metered(self, runtime: AgentRuntime) -> AgentRuntime:
        """The runtime with its turns counted."""
        return MeteredRuntime(runtime, self.metrics) if self.metrics is not None else runtime


UNWATCHED = Watching()
"""No prices, and nothing is counted."""
