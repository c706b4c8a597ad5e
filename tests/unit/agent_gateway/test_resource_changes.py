"""Changes of resources reach those who want them, and not more often than a reader can use them."""

import asyncio

import pytest

from agent_gateway.mcp import subscriptions
from agent_gateway.mcp.subscriptions import ResourceChanges

GATHER, GAP = 0.01, 0.05


@pytest.fixture(autouse=True)
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "GATHER_SECONDS", GATHER)
    monkeypatch.setattr(subscriptions, "GAP_SECONDS", GAP)


@pytest.fixture
def told() -> list[str]:
    return []


async def quiet() -> None:
    await asyncio.sleep(GATHER + 3 * GAP)


async def test_a_change_is_told_once_and_only_if_it_is_wanted(told: list[str]) -> None:
    changes = ResourceChanges(told.append)
    changes.changed("x:1")
    with changes.wanting() as want:
        want({"x:1", "x:2"})
        for uri in ("x:1", "x:1", "x:2", "x:3"):
            changes.changed(uri)
        await quiet()
        assert sorted(told) == ["x:1", "x:2"]
    changes.changed("x:1")
    await quiet()
    assert len(told) == 2


async def test_a_resource_that_changes_all_the_time_is_told_in_intervals_and_at_last(told: list[str]) -> None:
    changes, loop = ResourceChanges(told.append), asyncio.get_running_loop()
    with changes.wanting() as want:
        want({"x:1"})
        began = loop.time()
        while loop.time() < began + 4 * GAP:
            changes.changed("x:1")
            await asyncio.sleep(0.001)
        meanwhile = len(told)
        await quiet()
    assert 2 <= meanwhile <= 5
    assert len(told) in (meanwhile, meanwhile + 1)


async def test_resources_are_wanted_until_the_last_who_wants_them_has_gone(told: list[str]) -> None:
    changes = ResourceChanges(told.append)
    with changes.wanting() as want:
        want({"x:1", "x:2"})
        with changes.wanting() as want_too:
            want_too({"x:1"})
        want({"x:1"})
        changes.missed()
        await quiet()
    changes.missed()
    await quiet()
    assert told == ["x:1"]
