"""What the agents of one turn share: the emitter of events, and their counters."""

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from pallas_contracts.turns import KnownEvent, Step
from pallas_executor.agent_runtime import Emitter


@dataclass(frozen=True, slots=True)
class TurnScope:
    """Belongs to one turn; sub-agents share the scope of their caller."""

    emitter: Emitter
    _steps: Counter[str] = field(default_factory=Counter[str])
    _calls: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def emit(self, event: KnownEvent) -> None:
        """Emit an event."""
        self.emitter.emit(event)

    def step(self, agent: str, kind: Literal["llm", "tool"]) -> None:
        """Emit the next step of an agent. Both kinds share one count, over all runs of the agent in this turn."""
        self._steps[agent] += 1
        self.emitter.emit(Step(agent=agent, n=self._steps[agent], kind=kind))

    def new_call(self) -> str:
        """Return an id for a tool call that is unique in the turn; ids from models are not."""
        return f"call-{next(self._calls)}"
