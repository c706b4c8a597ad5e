"""What one turn's agents share while it runs: where events go, and the counters behind them."""

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from pallas_contracts.turns import KnownEvent, Step
from pallas_executor.agent_runtime import Emitter


@dataclass(frozen=True, slots=True)
class TurnScope:
    """Lives exactly as long as a turn; sub-agents share their caller's."""

    emit: Emitter
    _steps: Counter[str] = field(default_factory=Counter[str])
    _calls: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def say(self, event: KnownEvent) -> None:
        """Emit an event."""
        self.emit.emit(event)

    def step(self, agent: str, kind: Literal["llm", "tool"]) -> None:
        """Say that the agent's loop moves on; both kinds count together, over all runs of the agent in this turn."""
        self._steps[agent] += 1
        self.emit.emit(Step(agent=agent, n=self._steps[agent], kind=kind))

    def new_call(self) -> str:
        """Return an id for a tool call that is unique in the turn, which a model's own ids are not."""
        return f"call-{next(self._calls)}"
