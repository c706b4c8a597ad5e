"""What is stored of sessions is bounded, for each caller and in all."""

from collections.abc import AsyncGenerator

import pytest
from tests.conftest import Connecting
from tests.waiting import eventually

from agent_gateway.handshake import sessions as module
from agent_gateway.handshake.sessions import MOST_CHARACTERS, MOST_OF_A_CALLER, Sessions
from pallas_bus.kv import get, watch
from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY, SESSIONS
from pallas_contracts.errors import Rejected


@pytest.fixture
async def sessions(bus: Connecting) -> AsyncGenerator[Sessions]:
    gateway = await bus(GATEWAY)
    await declare(gateway, SESSIONS)
    async with watch(gateway, SESSIONS) as table:
        await table.synced.wait()
        for session, _ in list(table.items()):
            await Sessions(gateway, table).set_log_level(session, "nobody", "debug")
        yield Sessions(gateway, table)


async def test_of_one_caller_only_the_newest_sessions_are_stored(sessions: Sessions) -> None:
    await sessions.set_log_level("other", "alice", "error")
    for number in range(MOST_OF_A_CALLER + 3):
        await sessions.set_log_level(f"s{number}", "mallory", "error")
    assert len(sessions.known) == MOST_OF_A_CALLER + 1
    assert [sessions.log_level(f"s{number}") for number in range(4)] == [None, None, None, "error"]
    assert sessions.log_level("other") == "error"
    await sessions.set_log_level("s3", "mallory", "info")  # it is stored already
    assert sessions.log_level("s4") == "error"


async def test_a_session_that_wants_what_all_get_is_not_stored(sessions: Sessions) -> None:
    await sessions.set_log_level("s", "alice", "debug")
    assert await get(sessions.bus, SESSIONS, session="s") is None
    await sessions.set_log_level("s", "alice", "error")
    await sessions.subscribe("s", "alice", "red.harper", "a:b", wanted=True)
    await sessions.set_log_level("s", "alice", "debug")
    assert sessions.subscriptions("s", "red.harper") == ("a:b",)
    await sessions.subscribe("s", "alice", "red.harper", "a:b", wanted=False)
    assert await get(sessions.bus, SESSIONS, session="s") is None
    await eventually(lambda: len(sessions.known) == 0)


async def test_more_sessions_than_the_limit_are_refused(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 2)
    for caller in ("alice", "bob"):
        await sessions.set_log_level(caller, caller, "error")
    with pytest.raises(Rejected, match="The settings of 2 sessions are stored"):
        await sessions.set_log_level("mallory", "mallory", "error")


async def test_the_addresses_of_a_session_are_bounded(sessions: Sessions) -> None:
    await sessions.subscribe("s", "alice", "red.harper", "a" * (MOST_CHARACTERS - 1), wanted=True)
    with pytest.raises(Rejected, match="16384 characters in all"):
        await sessions.subscribe("s", "alice", "red.piper", "bc", wanted=True)
