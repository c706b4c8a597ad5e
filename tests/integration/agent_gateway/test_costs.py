"""What models cost: the log, the sums that are folded from it, and budgets that refuse calls until the next day."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Connecting
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.rpc import Rpc, execute
from tests.integration.real_parts import Front, a_lab, a_process, a_worker, until
from tests.requirements import requirement
from tests.waiting import eventually

from health_monitor.spending import keep_spending
from health_monitor.spending.keep_spending import KeepSpending
from pallas_bus.kv import get, put, snapshot
from pallas_cli.commands.budgets import delete_budget, set_budget, show_budgets, whose_of
from pallas_cli.costs import show_costs
from pallas_cli.options import WHOLE
from pallas_cli.turns.listing import filter_of, show_turns
from pallas_cli.turns.show import show_turn
from pallas_contracts.catalog import CLI, MONITOR, SPENDING
from pallas_contracts.costs import Spending
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, caller_token

PRICES = "currency: EUR\nmodels: {offline: {input: 1000, output: 2000}}\n"
LLM = "  harper: {model: offline, title: Harper}\n"
COSTS = partial(show_costs, since="1h", until=None, caller=None, prices=None, as_json=True)

type Answer = dict[str, Any]


class Lab:
    """A gateway with a worker whose models have prices, and the process that folds the log."""

    def __init__(self, platform: Platform, http: httpx.AsyncClient, front: Front, rpc: Rpc) -> None:
        self.platform = platform
        self.http = http
        self.front = front
        self.rpc = rpc
        self.now = utc_now
        self.front.gateway.calls.admission.budgets.now = lambda: self.now()

    async def ask(self, message: str = "hello") -> Answer:
        """Call the agent with a model over MCP."""
        body, headers = wire.modern("tools/call", {"name": "harper", "arguments": {"message": message}})
        *_, last = await wire.answers(self.http, self.front.url(self.platform.team, "harper"), (body, headers))
        return last["result"]

    async def refused(self) -> Answer:
        """The facts of a refusal over MCP, and its text."""
        result = await self.ask()
        assert result["isError"]
        return {**result["_meta"]["pallas/error"], "text": result["content"][0]["text"]}

    async def spending(self, calls: int) -> Spending:
        """Wait until that many calls of the team are folded."""
        found: list[Spending] = []

        async def look() -> bool:
            entries = (await snapshot(self.platform.bus, SPENDING)).values()
            found[:] = [entry for entry in entries if entry.team == self.platform.team and entry.calls >= calls]
            return bool(found)

        await until(look)
        return found[0]

    async def known(self, spent: Spending) -> None:
        """Wait until the gateway knows what was spent."""

        async def look() -> bool:
            return any(entry == spent for entry in self.front.gateway.calls.admission.budgets.spending.values())

        await until(look)


@asynccontextmanager
async def folding(bus: Connecting, url: str) -> AsyncGenerator[KeepSpending]:
    """A process that folds the log, as health-monitor runs it."""
    keeper = KeepSpending(await bus(MONITOR, url=url))
    running = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def lab(
    platform: Platform, http: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Lab]:
    monkeypatch.setattr(keep_spending, "EVERY", 0.05)
    (tmp_path / "prices.yaml").write_text(PRICES)
    folder = a_lab(platform.folder, platform.team, lambda text: text + LLM)
    process = a_process("agent-worker")
    async with a_worker(platform.url, folder, process=process, prices=str(tmp_path / "prices.yaml")):
        front = await platform.gateway()
        await platform.served(front, "harper")
        yield Lab(platform, http, front, Rpc(http, front, platform.team))


@requirement("K-cost-2", "K-cost-3", "K-cost-4")
async def test_a_budget_runs_out_refuses_calls_on_every_way_and_is_full_the_next_day(
    lab: Lab, bus: Connecting, capsys: pytest.CaptureFixture[str]
) -> None:
    team, cli = lab.platform.team, await bus(CLI, url=lab.platform.url)
    budget = whose_of(team, None, None)
    await set_budget(cli, whose=budget, tokens_per_day=1, money_per_day=None, currency="EUR", as_json=False)
    await eventually(lambda: bool(len(lab.front.gateway.calls.admission.budgets.granted)))
    async with folding(bus, lab.platform.url):
        assert not (await lab.ask())["isError"]
        spent = await lab.spending(1)
        assert spent.money == {"EUR": spent.input_tokens * 1_000_000 + spent.output_tokens * 2_000_000}
        await lab.known(spent)
        error = await lab.refused()
        resets = (utc_now() + timedelta(days=1)).date()
        sentence = f"The budget of team {team!r} for today is used up: {spent.tokens} of 1 tokens."
        assert error["text"] == f"budget_exhausted: {sentence} It resets at {resets} 00:00 UTC."
        assert (error["code"], error["retryable"]) == ("budget_exhausted", True)
        assert 0 < error["retry_after_ms"] <= 86_400_000
        answer = (await lab.rpc.answer(execute("harper", "harper", {"message": "hello"})))["error"]
        assert (answer["code"], answer["data"]["code"]) == (-32001, "budget_exhausted")
        assert answer["message"].startswith(sentence)
        own = {"team": team, "agent": "harper", "reason": "team_budget"}
        assert lab.front.counted("pallas_calls_refused_total", **own) == 2
        assert lab.front.counted("pallas_budget_used_ratio", team=team) == 1
        await show_budgets(cli, page=WHOLE, as_json=False)
        assert f"team {team}" in capsys.readouterr().out
        await set_budget(cli, whose=budget, tokens_per_day=1, money_per_day=5, currency="USD", as_json=False)
        assert capsys.readouterr().err == "warning: models are paid in EUR: nothing counts for USD\n"
        lab.now = lambda: utc_now() + timedelta(days=1)
        assert lab.front.counted("pallas_budget_used_ratio", team=team) == 0
        assert not (await lab.ask())["isError"]
        lab.now = utc_now
        await delete_budget(cli, whose=budget, as_json=False)
        await eventually(lambda: not len(lab.front.gateway.calls.admission.budgets.granted))
        assert not (await lab.ask())["isError"]


@requirement("K-cost-5")
async def test_a_long_turn_stops_when_it_has_spent_what_was_left_of_the_budget(lab: Lab, bus: Connecting) -> None:
    cli = await bus(CLI, url=lab.platform.url)
    whose = whose_of(lab.platform.team, None, None)
    await set_budget(cli, whose=whose, tokens_per_day=None, money_per_day=0.0001, currency="EUR", as_json=False)
    await eventually(lambda: bool(len(lab.front.gateway.calls.admission.budgets.granted)))
    result = await lab.ask('/tool nothing {}\n/tool nothing {}\n/say "done"')
    assert result["isError"]
    assert result["_meta"]["pallas/error"]["code"] == "budget_exhausted"
    assert "when it was accepted, 0.0001 EUR were left of a budget for the day" in result["content"][0]["text"]
    await delete_budget(cli, whose=whose, as_json=False)


@requirement("K-cost-3")
async def test_two_processes_and_a_restart_count_each_call_once(lab: Lab, bus: Connecting) -> None:
    url = lab.platform.url
    async with folding(bus, url), folding(bus, url):
        await asyncio.gather(*(lab.ask() for _ in range(5)))
        spent = await lab.spending(5)
    assert spent.calls == 5
    await lab.ask()
    async with folding(bus, url) as keeper:
        assert (await lab.spending(6)).calls == 6
        await eventually(lambda: keeper.lag < 1)
    token = caller_token(spent.caller)
    stored = await get(lab.platform.bus, SPENDING, day=spent.day, team=spent.team, caller=token)
    assert stored is not None
    nothing = Spending(day=spent.day, team=spent.team, caller=spent.caller)
    await put(lab.platform.bus, SPENDING, nothing, day=spent.day, team=spent.team, caller=token)
    async with folding(bus, url):
        assert await lab.spending(6) == stored, "what is lost is made again from the log"


@requirement("K-cost-1", "K-cost-2")
async def test_commands_show_what_turns_and_teams_have_spent(
    lab: Lab, bus: Connecting, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cli, team = await bus(CLI, url=lab.platform.url), lab.platform.team
    await lab.ask('/tool nothing {}\n/say "done"')
    claimed = await lab.platform.claim(Claimed)
    await lab.platform.outcome(claimed)
    await COSTS(cli, by="agent", team=team)
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["agent"], row["calls"], row["unpriced_calls"]) == (f"{team}/harper", 2, 0)
    assert row["cost"] == {"EUR": pytest.approx((row["input_tokens"] + 2 * row["output_tokens"]) / 1000)}
    for by, name in (("caller", "peer:127.0.0.1"), ("model", "offline"), ("team", team)):
        await COSTS(cli, by=by, team=team)
        assert json.loads(capsys.readouterr().out)[0][by] == name
    (tmp_path / "other.yaml").write_text("currency: USD\nmodels: {}\n")
    await COSTS(cli, by="model", team=team, prices=tmp_path / "other.yaml", as_json=False)
    assert "unpriced" in capsys.readouterr().out
    await show_turn(cli, claimed.turn_id, as_json=False)
    shown = capsys.readouterr().out
    assert f"spent {row['input_tokens']} tokens in, {row['output_tokens']} out; cost: 0." in shown
    await show_turns(cli, wanted=filter_of(team=team, data=tmp_path), limit=5, as_json=True)
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["spent"] == {name: row[name] for name in listed["spent"]}
