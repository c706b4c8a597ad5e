"""Calls that meet: one of many starts a task, and whatever stop and delete do meanwhile, all answers fit together."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import httpx
from tests.integration.fleet.lab import Lab
from tests.integration.fleet.test_tools import failure
from tests.integration.real_parts import a_gateway, until
from tests.requirements import requirement
from tests.waiting import PATIENCE, eventually

from pallas_bus import kv
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import AGENTS, FLEET_AGENT, FLEET_TEAM
from pallas_contracts.turns import Result

GATEWAYS, CALLS = 3, 100


@requirement("F-start_task-4", "F-run-2")
async def test_of_a_hundred_calls_over_several_gateways_one_starts_a_task(lab: Lab) -> None:
    await lab.replica()
    await lab.replica()
    name = await lab.create()

    async def published() -> bool:
        return await kv.get(lab.bus, AGENTS, team=FLEET_TEAM, agent=FLEET_AGENT) is not None

    await until(published)
    given = {"agent_name": name, "task_description": "work 60 s"}
    params = {"agent_id": FLEET_AGENT, "function": "start_agent_task", "input": given}
    async with AsyncExitStack() as stack:
        fronts = [await stack.enter_async_context(a_gateway(lab.nats_url)) for _ in range(GATEWAYS)]
        http = await stack.enter_async_context(httpx.AsyncClient(verify=False, trust_env=False, timeout=PATIENCE))

        async def start(number: int) -> JsonObject:
            called = params | {"meta": {"task_id": f"call-{number}"}}
            body = {"jsonrpc": "2.0", "id": number, "method": "agent.execute", "params": called}
            url = f"{fronts[number % GATEWAYS].base}/teams/{FLEET_TEAM}/rpc"
            return (await http.post(url, json=body)).json()

        answers = await asyncio.gather(*map(start, range(CALLS)))
    refused = [answer["error"] for answer in answers if "error" in answer]
    assert Counter(error["code"] for error in refused) == {-32000: CALLS - 1}, refused
    [task] = [row for row in await lab.history(name) if row["status"] == "running"]
    for error in refused:
        told = error["data"]["data"]
        assert failure(told) == ("conflict", 409)
        assert told["details"]["task_id"] == task["id"]
        assert told["details"]["since"] in (task["created_at"], task["started_at"])
    assert lab.coder.agent(name).prompts == ["say hello", "work 60 s"]


@requirement("F-run-2")
async def test_starts_stops_and_deletions_that_meet_leave_nothing_behind(lab: Lab) -> None:
    """The agent does what was started and not stopped, or is gone; nothing of it runs on, and nobody gets nonsense."""
    await lab.replica()
    await lab.replica()
    for round_ in range(4):
        name = await lab.create()
        handle = lab.coder.agent(name)
        starts = [
            lab.result("start_agent_task", agent_name=name, task_description=f"work 60 s; say {number}")
            for number in range(3)
        ]
        stops = [lab.result("stop_agent_task", agent_name=name) for _ in range(3)]
        deletes = [lab.result("delete_agent", agent_name=name)] if round_ % 2 else []
        calls = [call for calls in zip(starts, stops, strict=True) for call in calls] + deletes
        results = await asyncio.gather(*calls)
        words = [word(result) for result in results]
        assert set(words) <= {"done", "conflict", "not_found", "service_unavailable"}, results
        if deletes:
            assert words[-1] == "done", results[-1]
            await gone(lab, name)
            assert (await lab.error("show_agent", agent_name=name))["error"] == "not_found"
            continue
        rows = await lab.history(name)
        started = {it.structured["task"]["id"] for it in results[:6:2] if not it.is_error}
        stopped = {it.structured["task"]["id"] for it in results[1:6:2] if not it.is_error}
        assert started <= {row["id"] for row in rows}
        assert stopped == {row["id"] for row in rows if row["status"] == "stopped"}, (words, rows)
        running = [row for row in rows if row["status"] == "running"]
        assert len(running) <= 1
        assert handle.status == ("running" if running else "stable")
        if running:
            await lab.call("stop_agent_task", agent_name=name)
            await handle.until("stable")
        assert len(handle.prompts) == len(set(handle.prompts))


async def gone(lab: Lab, name: str) -> None:
    """Wait until every replica has heard that there is no such agent."""
    await eventually(lambda: lab.known(name) is None)


def word(result: Result) -> Any:
    """The error of a result, or `done`."""
    return (result.meta or {})["pallas/error"]["error"] if result.is_error else "done"
