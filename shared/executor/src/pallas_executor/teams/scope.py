"""What the agents of one attempt share: the emitter of events, the journal, and their counters."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from pallas_contracts.costs import Cost
from pallas_contracts.turns import KnownEvent, ModelCalled, Step
from pallas_executor.agent_runtime import Emitter, Failed
from pallas_executor.steps import Steps


@dataclass(slots=True)
class TurnScope:
    """Belongs to one attempt; sub-agents share the scope of their caller."""

    emitter: Emitter
    steps: Steps
    _counts: Counter[str] = field(default_factory=Counter[str])
    _spent: Counter[str] = field(default_factory=Counter[str])
    """Tokens under the empty name, and nanos by currency."""

    def emit(self, event: KnownEvent) -> None:
        """Emit an event."""
        self.emitter.emit(event)

    @property
    def caller(self) -> str:
        """The principal of the turn as `type:id`."""
        return self.steps.turn.principal.label

    def model_called(self, event: ModelCalled) -> None:
        """Emit that a model answered, and count what it cost."""
        self._spent[""] += event.input_tokens + event.output_tokens
        if event.cost is not None:
            self._spent[event.cost.currency] += event.cost.nanos
        self.emitter.emit(event)

    def exhausted(self) -> Failed | None:
        """Why no model may be called any more: this attempt has used up what was left of the budgets. None: one may."""
        allowed = self.steps.turn.allowance
        if allowed is None:
            return None
        if allowed.tokens is not None and self._spent[""] >= allowed.tokens:
            return _exhausted(f"{self._spent['']} tokens", f"{allowed.tokens} tokens")
        for most in allowed.money:
            if (spent := self._spent[most.currency]) >= most.nanos:
                return _exhausted(str(Cost(nanos=spent, currency=most.currency)), str(most))
        return None

    def step(self, agent: str, kind: Literal["llm", "tool"]) -> None:
        """Emit the next step of an agent. Both kinds share one count, over all runs of the agent in this turn."""
        self.step_taken_over(agent)
        self.steps.begin(self._counts[agent])
        self.emitter.emit(Step(agent=agent, n=self._counts[agent], kind=kind))

    def step_taken_over(self, agent: str) -> None:
        """Count a step that an earlier attempt has made."""
        self._counts[agent] += 1


def _exhausted(spent: str, left: str) -> Failed:
    text = f"The turn has used {spent}; when it was accepted, {left} were left of a budget for the day."
    return Failed("budget_exhausted", text)
