"""Counts what the turns of an agent do, from their events: calls of models and tools, tokens, money, steps.

So the metrics say what the log says. It stands between the executor and the runtime of every agent of a team folder.
"""

import collections
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram

from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.costs import NANOS, model_ref
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
from pallas_runtime.metrics import AGENT, AgentSeries, ByAgent
from pallas_teams.prices import NO_PRICES, PriceTable
from pallas_turns.events import Emitter
from pallas_turns.metrics import Metrics as ExecutorMetrics
from pallas_turns.metrics import make_metrics as make_executor_metrics
from pallas_turns.runtime import AgentRuntime, Outcome, Turn

MOST_MODELS = 100

MODEL_SECONDS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300)
STEPS = (1, 2, 3, 5, 8, 13, 20, 40, 100)


@dataclass(frozen=True)
class ModelMetrics:
    """The instruments of models and tools. Those with the labels of an agent exist while it is hosted here."""

    seconds: Histogram
    responses: Counter
    _calls: ByAgent[Counter]
    _tokens: ByAgent[Counter]
    _cost: ByAgent[Counter]
    _unpriced: ByAgent[Counter]
    _tools: ByAgent[Counter]
    _steps: ByAgent[Histogram]
    _models: set[str] = field(default_factory=set[str])

    def model_called(self, team: str, event: ModelCalled) -> None:
        """Count a call that a model has answered."""
        agent, model = (team, event.agent), self._model(event.provider, event.model)
        self._calls.count(*agent, model, "ok")
        self.seconds.labels(model).observe(event.duration_ms / 1000)
        fresh = event.input_tokens - event.cached_tokens
        for kind, tokens in (("input", fresh), ("cached", event.cached_tokens), ("output", event.output_tokens)):
            if tokens and (series := self._tokens.of(*agent, model, kind)) is not None:
                series.inc(tokens)
        if event.cost is None:
            self._unpriced.count(*agent, model)
        elif (series := self._cost.of(*agent, model, event.cost.currency)) is not None:
            series.inc(event.cost.nanos / NANOS)

    def model_failed(self, team: str, event: ModelFailed) -> None:
        """Count a call that a model has not answered."""
        model = self._model(event.provider, event.model)
        self._calls.count(team, event.agent, model, event.code)

    def tool_called(self, team: str, agent: str, event: ToolCompleted | ToolFailed) -> None:
        """Count a call of a tool. Its name is no label: a model may call a tool that does not exist."""
        self._tools.count(team, agent, "failed" if isinstance(event, ToolFailed) else "ok")

    def attempt_ended(self, team: str, agent: str, steps: int) -> None:
        """Observe how many steps an agent has made in an attempt."""
        if (series := self._steps.of(team, agent)) is not None:
            series.observe(steps)

    def responded(self, provider: str, code: str) -> None:
        """Count a response of a provider, or that there was none."""
        self.responses.labels(provider, code).inc()

    def _model(self, provider: str, name: str) -> str:
        model = model_ref(provider, name)
        if model not in self._models:
            if len(self._models) >= MOST_MODELS:
                return "other"
            self._models.add(model)
        return model


@dataclass(frozen=True)
class Metrics:
    """The instruments of a worker. Made by `make_metrics`."""

    executor: ExecutorMetrics
    models: ModelMetrics


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    executor = make_executor_metrics(registry)
    return Metrics(executor, _make_model_metrics(registry, executor.agents))


def _make_model_metrics(registry: CollectorRegistry, agents: AgentSeries) -> ModelMetrics:
    def counted(name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, [*AGENT, *labels], registry=registry)

    seconds = Histogram(
        "pallas_model_call_seconds",
        "Time until a model has answered",
        ["model"],
        registry=registry,
        buckets=MODEL_SECONDS,
    )
    responses = Counter(
        "pallas_provider_responses",
        "HTTP responses of models' providers, also those retried by the SDK: by status, or why there was none",
        ["provider", "code"],
        registry=registry,
    )
    calls = counted("pallas_model_calls", "Calls of models, by outcome", "model", "outcome")
    tokens = counted("pallas_model_tokens", "Tokens of models: input, cached input, output", "model", "kind")
    cost = counted("pallas_model_cost", "Money spent on models, in units of the currency", "model", "currency")
    unpriced = counted("pallas_model_unpriced_calls", "Answers of models without a price", "model")
    tools = counted("pallas_tool_calls", "Calls of tools and sub-agents in turns of an agent: ok or failed", "outcome")
    steps = Histogram(
        "pallas_attempt_steps", "Steps that an agent makes in an attempt", AGENT, registry=registry, buckets=STEPS
    )
    return ModelMetrics(
        seconds,
        responses,
        agents.keep(calls, begins=False),
        agents.keep(tokens, begins=False),
        agents.keep(cost, begins=False),
        agents.keep(unpriced, begins=False),
        agents.keep(tools, "ok", "failed"),
        agents.keep(steps),
    )


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
    steps: collections.Counter[str] = field(default_factory=collections.Counter[str])

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
