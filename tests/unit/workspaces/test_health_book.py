"""The book of agents' health, with a clock of the test."""

from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, Gauge
from tests.waiting import soon

from pallas_mcp_calls.model import HealthReport, Target
from workspaces.agents import health
from workspaces.agents.health import HealthBook
from workspaces.agents.targets import Agent
from workspaces.live.hub import ALL, Hub

AGENT = Agent("kottos", "Kottos", "harper", "Harper", Target("http://agent.test/mcp"))


async def test_a_health_that_was_too_old_is_told_again_though_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(health, "time", SimpleNamespace(monotonic=lambda: now))

    async def ask(_: Target) -> HealthReport:
        return HealthReport("ok")

    hub = Hub("")
    gauge = Gauge("agent_health", "", ["instance", "agent"], registry=CollectorRegistry())
    book = HealthBook(ask, hub, gauge, interval=1.0)
    book.update([AGENT])
    async with hub.subscribe(ALL) as told:
        await book.check_now(*AGENT.key)
        assert (await soon(anext(told))).data["health"]["status"] == "ok"
        now += 60
        assert book.of(*AGENT.key).message == "not checked"
        await book.check_now(*AGENT.key)
        assert (await soon(anext(told))).data["health"]["status"] == "ok"
