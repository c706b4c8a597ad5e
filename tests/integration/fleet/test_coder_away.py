"""A Coder that is away in each way in which it can be, and every tool: a 503 within the time that calls of Coder have.

This time is 12 s, which a unit test of `Limits` checks. Here it is shorter.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.embedded import NatsServer
from tests.integration.fleet.lab import QUICK, Lab
from tests.integration.real_parts import OWNED
from tests.requirements import requirement
from tests.unit.fleet.socket_server import self_signed, serving

from fleet.reaching.http import Http, Limits
from pallas_bus.connection import connect
from pallas_bus.streams import declare
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import GATEWAY
from pallas_demo.coder import CoderStandIn, Fault, StandInSettings
from pallas_demo.coder.faults import Mode
from pallas_turns.feeds import follow_turns

LIMITS = Limits(request=2.0, call=2.4)
LONGEST = LIMITS.call + 1.0
"""Seconds of an answer: one call of Coder, or several within its time, and what we need ourselves."""

NAMED: JsonObject = {"agent_name": "papi"}
CALLS: dict[str, JsonObject] = {
    "create_agent": {"name": "sony", "project": "Setup", "spec": "say hello"},
    "list_agents": {},
    "show_agent": NAMED,
    "show_agent_task_history": NAMED,
    "delete_agent": NAMED,
    "start_agent_task": {**NAMED, "task_description": "say hello"},
    "stop_agent_task": NAMED,
    "list_agent_roles": {"project": "Setup"},
    "list_agent_projects": {},
}
WAYS: dict[Mode | str, set[str]] = {
    "refuse": {"refused"},
    "hang": {"timeout"},
    "reset": {"reset", "broken"},
    "bad_gateway": {"status"},
    "html": {"not_json"},
    "expired": {"unauthorized"},
    "certificate": {"certificate"},
}
"""Ways in which Coder is away, with the reasons that errors may give."""


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.app.Http", partial(Http, limits=LIMITS))
    monkeypatch.setattr("fleet.running.stopping.STOP_SECONDS", 1.0)


@asynccontextmanager
async def a_lab(**settings: str) -> AsyncGenerator[Lab]:
    """A lab with a broker of its own, and one replica."""
    async with AsyncExitStack() as stack:
        broker = NatsServer()
        await asyncio.to_thread(broker.start)
        stack.push_async_callback(asyncio.to_thread, broker.close)
        coder = await stack.enter_async_context(CoderStandIn(StandInSettings(build_seconds=0.05, terminal=QUICK)))
        bus = await stack.enter_async_context(connect(broker.url, GATEWAY))
        await declare(bus, *OWNED)
        lab = Lab(bus, await stack.enter_async_context(follow_turns(bus)), broker.url, coder, stack)
        await lab.replica(**settings)
        yield lab


async def away(lab: Lab, way: str, *tools: str, seen: bool = False) -> None:
    """Call tools at once: all answers are 503 in time and without the token. `seen`: a moment ago, Coder answered."""

    async def call(tool: str) -> tuple[float, JsonObject]:
        began = time.monotonic()
        error = await lab.error(tool, **CALLS[tool])
        return time.monotonic() - began, error

    for tool, (seconds, error) in zip(tools, await asyncio.gather(*map(call, tools)), strict=True):
        assert (error["error"], error["details"]["status"]) == ("service_unavailable", 503), (way, tool, error)
        if not seen:
            assert error["details"].get("reason") in WAYS[way], (way, tool, error)
        assert lab.coder.token not in str(error), (way, tool)
        assert seconds <= LONGEST, (way, tool, seconds)


@requirement("F-common-7", "F-create_agent-9", "F-list_agents-3")
async def test_every_tool_answers_503_in_every_way_in_which_coder_is_away(tmp_path: Path) -> None:
    async def check(way: str) -> None:
        async with AsyncExitStack() as stack:
            settings: dict[str, str] = {}
            if way == "certificate":
                server = await stack.enter_async_context(serving(lambda _: None, self_signed(tmp_path)))
                settings["coder_url"] = server.url
            lab = await stack.enter_async_context(a_lab(**settings))
            if way != "certificate":
                await lab.coder.fault(Fault.model_validate({"mode": way}))
            lab.any.service.fleet.forget()
            await away(lab, way, *CALLS)

    await asyncio.gather(*map(check, WAYS))


@requirement("F-common-7")
async def test_calls_that_saw_coder_a_moment_ago_end_in_time_too() -> None:
    changing = ("create_agent", "delete_agent", "start_agent_task", "stop_agent_task")

    async def check(tool: str) -> None:
        async with a_lab() as lab:
            await lab.create("papi")
            if tool == "stop_agent_task":
                await lab.call("start_agent_task", agent_name="papi", task_description="work 60 s")
            await lab.call("list_agents")
            await lab.coder.fault(Fault(mode="hang"))
            await away(lab, "hang", tool, seen=True)

    await asyncio.gather(*map(check, changing))
