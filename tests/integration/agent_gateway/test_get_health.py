"""`get_health` returns a fresh health at once, asks the monitor for an old one, and always answers in time."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import agent_definition
from tests.conftest import Connecting
from tests.waiting import PATIENCE, eventually, within

from agent_gateway.mcp import definitions as handler
from agent_gateway.mcp.definitions import get_health
from pallas_bus.ask import answer, answering
from pallas_bus.connection import Bus
from pallas_bus.kv import Table, put, watch
from pallas_bus.streams import declare
from pallas_contracts.catalog import CHECK_HEALTH, GATEWAY, HEALTH, MONITOR
from pallas_contracts.health import AgentHealth, HealthAsked
from pallas_contracts.message import utc_now

ALWAYS_WITHIN = 0.9
"""Seconds, by the contract."""


class Known:
    """The published health of an agent, and a monitor that can be asked."""

    def __init__(self, team: str, gateway: Bus, monitor: Bus, table: Table[AgentHealth]) -> None:
        self.team, self.gateway, self.monitor, self.table = team, gateway, monitor, table
        self.asked = 0

    def health(self, age: float = 0.0, **fields: Any) -> AgentHealth:
        given = {"team": self.team, "agent": "harper", "status": "ok", "interval": 15}
        return AgentHealth.model_validate(given | {"at": utc_now() - timedelta(seconds=age)} | fields)

    async def publish(self, health: AgentHealth) -> None:
        await put(self.monitor, HEALTH, health, team=self.team, agent="harper")
        await eventually(lambda: self.table.get(f"{self.team}.harper") == health)

    async def answers(self, health: AgentHealth, after: float = 0.0) -> None:
        """Let the monitor answer with `health`, after `after` seconds."""

        async def check(_asked: HealthAsked) -> AgentHealth:
            self.asked += 1
            await asyncio.sleep(after)
            return health

        service = await answering(self.monitor)
        await answer(self.monitor, service, CHECK_HEALTH, check, team=self.team)
        await self.monitor.client.flush()

    async def get(self) -> dict[str, Any]:
        """Call `get_health`, in bounded time."""
        async with within(ALWAYS_WITHIN):
            found = await get_health(self.gateway, self.table, agent_definition(self.team))
        return json.loads(found)


@pytest.fixture
async def known(bus: Connecting, team: str) -> AsyncGenerator[Known]:
    """An agent without a published health."""
    gateway, monitor = await bus(GATEWAY), await bus(MONITOR)
    await declare(gateway if HEALTH.owner == GATEWAY else monitor, HEALTH)
    async with watch(gateway, HEALTH) as table:
        yield Known(team, gateway, monitor, table)


async def test_a_fresh_health_is_returned_without_asking_the_monitor(known: Known) -> None:
    await known.answers(known.health(status="error", message="wrong"))
    health = known.health()
    await known.publish(health)
    assert await known.get() == {"status": "ok", "timestamp": health.at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    assert known.asked == 0


@pytest.mark.parametrize("status", ["degraded", "error"])
async def test_every_health_but_ok_has_a_message(known: Known, status: str) -> None:
    await known.publish(known.health(status=status, message="argos slow"))
    answer = await known.get()
    assert (answer["status"], answer["message"]) == (status, "argos slow")


async def test_an_old_health_is_checked_again(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "CHECK_HEALTH", replace(CHECK_HEALTH, timeout=PATIENCE))
    await known.publish(known.health(age=31))
    await known.answers(known.health(status="degraded", message="argos unreachable"))
    assert (await known.get())["message"] == "argos unreachable"
    assert known.asked == 1


@pytest.mark.parametrize(
    ("status", "message", "answered", "expected"),
    [
        ("ok", None, "degraded", "check is stale"),
        ("degraded", "argos slow", "degraded", "argos slow; check is stale"),
        ("error", "it failed", "error", "it failed; check is stale"),
    ],
)
async def test_an_old_health_without_a_monitor_is_stale(
    known: Known, status: str, message: str | None, answered: str, expected: str
) -> None:
    await known.publish(known.health(age=31, status=status, message=message))
    answer = await known.get()
    assert (answer["status"], answer["message"]) == (answered, expected)


async def test_get_health_does_not_wait_for_a_slow_check(known: Known) -> None:
    await known.publish(known.health(age=31))
    await known.answers(known.health(), after=5)
    assert (await known.get())["message"] == "check is stale"


async def test_an_agent_that_was_never_checked_is_degraded(known: Known) -> None:
    answer = await known.get()
    assert (answer["status"], answer["message"]) == ("degraded", "not checked yet")
