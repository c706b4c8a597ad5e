"""The metrics of a gateway: events that it sends to callers, and no series of retired agents."""

import httpx
import pytest
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.real_parts import measured
from tests.waiting import eventually, soon


@pytest.mark.usefixtures("queued_late")
async def test_only_events_sent_to_callers_are_counted(platform: Platform) -> None:
    await platform.worker()
    front = await platform.gateway("bench")
    messages: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    platform.file().touch()
    async with front.client(platform.team, "bench") as client:
        await soon(client.call_tool("wait", {"file": str(platform.files[0])}, progress_callback=on_progress))
        await eventually(lambda: bool(messages))
        assert front.counted("pallas_events_relayed_total", team=platform.team, agent="bench") == len(messages)
        await soon(client.call_tool("wait", {"file": str(platform.files[0])}))
    assert front.counted("pallas_events_relayed_total", team=platform.team, agent="bench") == len(messages)


async def test_a_turn_is_counted_only_by_the_process_that_writes_its_outcome(platform: Platform) -> None:
    await platform.worker()
    front = await platform.gateway("bench")
    async with front.client(platform.team, "bench") as client:
        await soon(client.call_tool("say", {}))
    await eventually(lambda: platform.counted("pallas_turns_total", outcome="completed") == 1)
    assert front.counted("pallas_turns_total", team=platform.team, agent="bench", outcome="completed") == 0


async def test_a_retired_agent_leaves_no_series(platform: Platform, http: httpx.AsyncClient) -> None:
    await platform.publish()
    await platform.publish("other")
    front = await platform.gateway("bench")
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
