"""What the agents of one turn share: the emitter of events, the journal, and their counters."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from pallas_contracts.turns import KnownEvent, Step
from pallas_executor.agent_runtime import Emitter
from pallas_executor.steps import Steps


@dataclass(frozen=True, slots=True)
class TurnScope:
    """Belongs to one turn; sub-agents share the scope of their caller."""

    emitter: Emitter
    steps: Steps
    _counts: Counter[str] = field(default_factory=Counter[str])

    def emit(self, event: KnownEvent) -> None:
        """Emit an event."""
        self.emitter.emit(event)

    def step(self, agent: str, kind: Literal["llm", "tool"]) -> None:
        """Emit the next step of an agent. Both kinds share one count, over all runs of the agent in this turn."""
        self.step_taken_over(agent)
        self.steps.begin(self._counts[agent])
        self.emitter.emit(Step(agent=agent, n=self._counts[agent], kind=kind))

    def step_taken_over(self, agent: str) -> None:
        """Count a step that an earlier attempt has made."""
        self._counts[agent] += 1
