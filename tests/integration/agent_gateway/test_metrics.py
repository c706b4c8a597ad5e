"""What a gateway counts: what it passes on, and nothing of agents that are gone."""

import httpx
import pytest
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.real_parts import measured
from tests.waiting import eventually, soon


@pytest.mark.usefixtures("queued_late")
async def test_events_that_callers_are_told_are_counted_and_others_are_not(platform: Platform) -> None:
    await platform.worker()
    front = await platform.gateway()
    await platform.served(front)
    told: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    platform.file().touch()
    async with front.client(platform.team, "bench") as client:
        await soon(client.call_tool("wait", {"file": str(platform.files[0])}, progress_callback=hear))
        await eventually(lambda: bool(told))
        assert front.counted("pallas_events_relayed_total", team=platform.team, agent="bench") == len(told)
        await soon(client.call_tool("wait", {"file": str(platform.files[0])}))
    assert front.counted("pallas_events_relayed_total", team=platform.team, agent="bench") == len(told)


async def test_a_turn_is_counted_where_its_outcome_is_written_and_nowhere_else(platform: Platform) -> None:
    await platform.worker()
    front = await platform.gateway()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        await soon(client.call_tool("say", {}))
    await eventually(lambda: platform.counted("pallas_turns_total", outcome="completed") == 1)
    assert front.counted("pallas_turns_total", team=platform.team, agent="bench", outcome="completed") == 0


async def test_a_retired_agent_leaves_no_series(platform: Platform, http: httpx.AsyncClient) -> None:
    await platform.publish()
    await platform.publish("other")
    front = await platform.gateway()
    await platform.served(front)
    await platform.served(front, "other")
    mine = f'team="{platform.team}"'
    shown = (await http.get(f"{front.base}/metrics")).text
    assert f'agent="bench",{mine}' in shown
    await platform.retire()
    await platform.gone(front)
    shown = (await http.get(f"{front.base}/metrics")).text
    assert f'agent="bench",{mine}' not in shown
    assert f'agent="other",{mine}' in shown
    assert measured(front.process, "pallas_turns_in_flight") == 0
