"""`get_health` as callers poll it: its form and speed, that it calls no model, and that it is correct."""

import asyncio
import json
import re
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from mcp import Client
from tests.e2e.calls import call
from tests.e2e.lab import Era, Lab
from tests.e2e.turns import Turns
from tests.requirements import requirement
from tests.waiting import eventually, soon, within

from pallas_bus import kv
from pallas_contracts.catalog import HEALTH


async def health_of(client: Client) -> dict[str, Any]:
    """Call `get_health` without arguments."""
    [block] = (await client.call_tool("get_health")).content
    assert block.type == "text"
    return json.loads(block.text)


async def until_status(client: Client, status: str, why: str = "") -> dict[str, Any]:
    """Poll until the health has this status, and `why` in its message. A late check makes it degraded, too."""

    async def ask() -> dict[str, Any]:
        while (health := await health_of(client))["status"] != status or why not in health.get("message", ""):  # noqa: ASYNC110 - it is polled
            await asyncio.sleep(0.05)
        return health

    return await soon(ask(), 20)


@requirement("P-3.4", "P-3.5", "P-3.6", "P-3.14", "P-3.18")
async def test_a_healthy_agent_is_ok_with_the_time_of_its_check(lab: Lab, era: Era) -> None:
    async with lab.client("chief", era) as client:
        health = await until_status(client, "ok")
    assert set(health) == {"status", "timestamp"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", health["timestamp"])
    age = datetime.now(UTC) - datetime.fromisoformat(health["timestamp"])
    assert -1 < age.total_seconds() < 10


async def test_arguments_of_get_health_may_be_an_empty_object(lab: Lab, era: Era) -> None:
    async with lab.client("plain", era) as client:
        result = await client.call_tool("get_health", {})
    assert not result.is_error


@requirement("P-3.9")
async def test_health_is_answered_within_a_second_by_every_replica(lab: Lab, era: Era) -> None:
    for replica in (0, 1):
        async with lab.client("chief", era, replica=replica) as client:
            for _ in range(5):
                async with within(1.0):
                    await health_of(client)


@requirement("P-3.8")
@pytest.mark.one_era
async def test_get_health_makes_no_turn_and_calls_no_model(lab: Lab, turns: Turns, era: Era) -> None:
    async with lab.client("seer", era) as client:
        await soon(turns.queue_is_empty())
        before = [record.subject for record in await turns.everything_stored() if ".turn." in record.subject]
        await health_of(client)
        after = [record.subject for record in await turns.everything_stored() if ".turn." in record.subject]
        assert before == after
        answer = await call(client, "seer", "/say a turn is seen, so this test can see one")
    assert any(answer.turn in record.subject for record in await turns.everything_stored())


@requirement("P-3.5", "P-3.7", "P-3.13", "P-3.15", "K-shape-6", "K-shape-7")
@pytest.mark.one_era
async def test_health_goes_from_ok_to_degraded_and_back_with_a_downstream_server(
    lab: Lab, turns: Turns, era: Era
) -> None:
    async with lab.client("frail", era) as client, kv.watch(turns.bus, HEALTH) as published:
        await until_status(client, "ok")
        lab.shaky.kill()
        try:
            await until_status(client, "degraded", "shaky unreachable")
            await soon(listed_health(lab, "frail", "degraded"))
            await eventually(lambda: (stored := published.get("lab.frail")) is not None and stored.status == "degraded")
            async with lab.client("plain", era) as other:
                await until_status(other, "ok")
            assert (await call(client, "frail", "/say I can still talk")).text == "I can still talk"
        finally:
            lab.shaky.start()
        assert "message" not in await until_status(client, "ok")


@requirement("P-3.15")
async def test_a_downstream_server_of_a_sub_agent_affects_the_health_of_its_callers(lab: Lab) -> None:
    async with lab.client("chief") as client:
        await until_status(client, "ok")
        lab.toolbox.kill()
        try:
            await until_status(client, "degraded", "toolbox unreachable")
        finally:
            lab.toolbox.start()
        await until_status(client, "ok")


async def listed_health(lab: Lab, agent: str, status: str) -> None:
    """Wait until the registry shows this health."""
    async with httpx.AsyncClient() as http:
        while True:
            catalogue = (await http.get(f"{lab.registry}/teams/lab/.well-known/mcp/server.json")).json()
            entries = {entry["server"]["name"]: entry["_meta"] for entry in catalogue["servers"]}
            if entries[f"local.lab/pallas-{agent}"]["io.pallas/health"]["status"] == status:
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("message", ['/tool shaky/add {"a": 1, "b": 2}'])
@pytest.mark.one_era
async def test_a_downstream_server_can_be_called_again_after_an_outage(lab: Lab, era: Era, message: str) -> None:
    async with lab.client("frail", era) as client:

        async def until_it_answers() -> None:
            while "shaky/add: completed" not in (await call(client, "frail", message)).messages:  # noqa: ASYNC110 - it is polled
                await asyncio.sleep(0.1)

        await soon(until_it_answers(), 20)
        lab.shaky.kill()
        lost = await call(client, "frail", message)
        lab.shaky.start()
        assert "shaky/add: failed" in lost.messages
        assert not lost.result.is_error
        await soon(until_it_answers(), 20)
