"""Counts what the turns of an agent do, from their events: calls of models and tools, tokens, money, steps.

So the metrics say what the log says. It stands between the executor and the runtime of every agent of a team folder.
"""

from collections import Counter
from dataclasses import dataclass, field

from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.turns import (
    Answered,
    KnownEvent,
    ModelCalled,
    ModelFailed,
    Step,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
)
from pallas_executor.agent_runtime import AgentRuntime, Emitter, Outcome, Turn
from pallas_executor.teams.metrics import ModelMetrics


@dataclass(frozen=True, slots=True)
class MeteredRuntime:
    """An `AgentRuntime` whose turns are counted."""

    inner: AgentRuntime
    metrics: ModelMetrics

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt."""
        meter = _Meter(emit, turn, self.metrics)
        try:
            return await self.inner.run_turn(turn, meter)
        finally:
            for agent, steps in meter.steps.items():
                self.metrics.attempt_ended(turn.team, agent, steps)

    async def read(self, question: AgentRead) -> JsonObject:
        """Answer a prompt, resource or completion request."""
        return await self.inner.read(question)


@dataclass(slots=True)
class _Meter:
    """The emitter of one attempt. Calls of models and steps count for the agent that makes them: maybe a sub-agent."""

    inner: Emitter
    turn: Turn
    metrics: ModelMetrics
    steps: Counter[str] = field(default_factory=Counter[str])

    def emit(self, event: KnownEvent) -> None:
        self.inner.emit(event)
        match event:
            case Step():
                self.steps[event.agent] += 1
            case ModelCalled():
                self.metrics.model_called(self.turn.team, event)
            case ModelFailed():
                self.metrics.model_failed(self.turn.team, event)
            case ToolCompleted() | ToolFailed():
                self.metrics.tool_called(self.turn.team, self.turn.agent, event)
            case _:
                pass

    async def tool_starting(self, event: ToolStarted) -> None:
        await self.inner.tool_starting(event)

    async def answered(self, event: Answered) -> bool:
        return await self.inner.answered(event)
