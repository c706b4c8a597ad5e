"""The limit of concurrent calls of one caller."""

import asyncio

import pytest

from library_search.mcp import tool_server
from library_search.mcp.tool_server import PerCaller
from pallas_contracts.errors import Unavailable


async def test_a_caller_waits_for_its_own_calls_only_and_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_server, "WAIT_SECONDS", 0.05)
    slots, entered = PerCaller(2), asyncio.Event()

    async def third() -> None:
        async with slots.slot("ann"):
            entered.set()

    async with slots.slot("ann"):
        async with slots.slot("ann"), slots.slot("bob"):
            with pytest.raises(Unavailable, match="this caller has too many calls under way") as refused:
                await third()
            assert refused.value.code == "busy"
            waiting = asyncio.create_task(third())
            await asyncio.sleep(0)
            assert not entered.is_set()
        await waiting
