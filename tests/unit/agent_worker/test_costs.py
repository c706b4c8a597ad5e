"""What turns cost: prices, metrics of models and tools, and turns that stop at what is left of a budget."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.requirements import requirement
from tests.runtimes import Events, a_turn, text_of

from agent_worker.teams import host_team
from pallas_contracts.costs import Allowance, Cost
from pallas_contracts.turns import ModelCalled, ModelFailed, Principal
from pallas_hosting.folders import HostedTeam
from pallas_hosting.metered import MOST_MODELS, Metrics, Watching, make_metrics
from pallas_teams import load_team
from pallas_teams.prices import Price, PriceTable
from pallas_turns.runtime import Completed, Failed, Outcome

PRICES = PriceTable("EUR", {"offline": Price(1_000_000_000, 0, 0, 2_000_000_000)})
FILES = {
    "agents.yaml": "name: demo\nagents:\n  harper: {depends_on: [research]}\n  research: {}\n"
    "  adder: {kind: function, module: adder.py}\n",
    "fastagent.config.yaml": "default_model: offline\n",
    "adder.py": "from agent_worker.functions import FunctionAgent\n\nagent = FunctionAgent()\n\n\n"
    '@agent.tool("greet")\nasync def greet(ctx, arguments):\n    return "hello"\n',
}
ASK_RESEARCH = '/tool research {"message": "/say found"}\n/tool nothing {}\n/say done'


class Lab:
    """A team whose turns are counted."""

    def __init__(self, team: HostedTeam, registry: CollectorRegistry, metrics: Metrics) -> None:
        self.agents = {hosted.definition.agent: hosted.runtime for hosted in team.agents}
        self.failed = team.failed
        self.registry = registry
        self.metrics = metrics
        self.events = Events()

    def counted(self, name: str, agent: str | None = "harper", **labels: str) -> float | None:
        own = {"team": "demo", "agent": agent} if agent is not None else {}
        return self.registry.get_sample_value(name, {**own, **labels})

    async def ask(self, message: str, allowance: Allowance | None = None) -> Outcome:
        turn = replace(a_turn(message=message), allowance=allowance, principal=Principal(type="user", id="ada"))
        return await self.agents["harper"].run_turn(turn, self.events)


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncGenerator[Lab]:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    registry = CollectorRegistry()
    metrics = make_metrics(registry)
    for agent in ("harper", "research", "adder"):
        metrics.executor.agents.changed(f"demo.{agent}", object())
    team = await host_team(load_team(tmp_path, {}), Watching(prices=PRICES, metrics=metrics.models))
    yield Lab(team, registry, metrics)
    await team.shared.close()


@requirement("K-cost-1", "K-cost-2")
async def test_each_call_of_a_model_says_who_spends_how_much_also_inside_sub_agents(lab: Lab) -> None:
    assert isinstance(await lab.ask(ASK_RESEARCH), Completed)
    called = lab.events.of(ModelCalled)
    assert [event.agent for event in called] == ["harper", "research", "harper", "harper"]
    assert {event.caller for event in called} == {"user:ada"}
    for event in called:
        nanos = event.input_tokens * 1000 + event.output_tokens * 2000
        assert event.cost == Cost(nanos=nanos, currency="EUR")


async def test_the_metrics_count_what_the_events_say(lab: Lab) -> None:
    await lab.ask(ASK_RESEARCH)
    called = [event for event in lab.events.of(ModelCalled) if event.agent == "harper"]
    assert lab.counted("pallas_model_calls_total", model="offline", outcome="ok") == 3
    for kind, tokens in (("input", "input_tokens"), ("output", "output_tokens")):
        wanted = sum(getattr(event, tokens) for event in called)
        assert lab.counted("pallas_model_tokens_total", model="offline", kind=kind) == wanted
    spent = sum(event.cost.nanos for event in called if event.cost is not None) / 1e9
    assert lab.counted("pallas_model_cost_total", model="offline", currency="EUR") == pytest.approx(spent)
    assert lab.counted("pallas_model_calls_total", "research", model="offline", outcome="ok") == 1
    assert lab.counted("pallas_model_call_seconds_count", None, model="offline") == 4
    assert lab.counted("pallas_model_unpriced_calls_total", model="offline") is None
    assert [lab.counted("pallas_tool_calls_total", outcome=outcome) for outcome in ("ok", "failed")] == [1, 1]
    assert (lab.counted("pallas_attempt_steps_sum"), lab.counted("pallas_attempt_steps_sum", "research")) == (5, 1)


async def test_a_function_is_metered_too(lab: Lab) -> None:
    assert lab.failed == {}
    outcome = await lab.agents["adder"].run_turn(a_turn("adder", "greet"), lab.events)
    assert text_of(outcome) == "hello"
    assert lab.counted("pallas_tool_calls_total", "adder", outcome="ok") == 0


async def test_a_call_that_fails_is_an_event_and_counted_by_its_reason(lab: Lab) -> None:
    assert isinstance(await lab.ask("/fail"), Failed)
    (failed,) = lab.events.of(ModelFailed)
    assert (failed.call, failed.agent, failed.provider, failed.code) == ("1", "harper", "offline", "server_error")
    assert lab.counted("pallas_model_calls_total", model="offline", outcome="server_error") == 1


@requirement("K-cost-5")
async def test_a_turn_stops_before_the_call_for_which_nothing_is_left(lab: Lab) -> None:
    outcome = await lab.ask(ASK_RESEARCH, Allowance(tokens=10))
    spent = sum(event.input_tokens + event.output_tokens for event in lab.events.of(ModelCalled))
    text = f"The turn has used {spent} tokens; when it was accepted, 10 tokens were left of a budget for the day."
    assert outcome == Failed("budget_exhausted", text)
    assert [event.agent for event in lab.events.of(ModelCalled)] == ["harper"], "the sub-agent is not asked either"


async def test_a_turn_stops_when_its_money_is_spent_and_not_before(lab: Lab) -> None:
    plenty = Allowance(tokens=10**6, money=(Cost(nanos=10**9, currency="EUR"), Cost(nanos=1, currency="USD")))
    assert isinstance(await lab.ask(ASK_RESEARCH, plenty), Completed)
    outcome = await lab.ask(ASK_RESEARCH, Allowance(money=(Cost(nanos=1, currency="EUR"),)))
    assert isinstance(outcome, Failed)
    assert outcome.code == "budget_exhausted"


async def test_models_beyond_the_first_hundred_share_a_series(lab: Lab) -> None:
    def called(number: int) -> ModelCalled:
        return ModelCalled(agent="harper", model=f"m{number}", provider="generic", duration_ms=1.0)

    for number in range(MOST_MODELS + 5):
        lab.metrics.models.model_called("demo", called(number))
    assert lab.counted("pallas_model_unpriced_calls_total", model="other") == 5
    assert lab.counted("pallas_model_unpriced_calls_total", model="generic.m99") == 1
