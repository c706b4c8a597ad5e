"""Log messages of the handshake era: a session says once which it wants, and every later call keeps to it."""

from collections.abc import AsyncGenerator

import pytest
from mcp import Client
from mcp_types import (
    EmptyResult,
    LoggingLevel,
    LoggingMessageNotificationParams,
    SetLevelRequest,
    SetLevelRequestParams,
)


@pytest.fixture
def written() -> list[str]:
    """The log messages that the client was sent."""
    return []


@pytest.fixture
async def client(conformance_url: str, written: list[str]) -> AsyncGenerator[Client]:
    """The official client, connected in the handshake era."""

    async def write(params: LoggingMessageNotificationParams) -> None:
        written.append(str(params.data))

    async with Client(conformance_url, mode="legacy", logging_callback=write) as connected:
        yield connected


async def set_level(client: Client, level: LoggingLevel) -> None:
    """Say which messages the session wants. The client's own method is deprecated for the sake of the next revision."""
    await client.session.send_request(SetLevelRequest(params=SetLevelRequestParams(level=level)), EmptyResult)


async def test_a_session_that_has_not_said_a_level_gets_every_message(client: Client, written: list[str]) -> None:
    assert client.server_capabilities.logging is not None
    await client.call_tool("test_tool_with_logging", {})
    assert written == [f"Tool execution {said}" for said in ("started", "processing data", "completed")]


async def test_a_session_gets_messages_of_its_level_and_above(client: Client, written: list[str]) -> None:
    await set_level(client, "warning")
    await client.call_tool("test_tool_with_logging", {})
    assert written == []
    await set_level(client, "debug")
    await client.call_tool("test_tool_with_logging", {})
    assert len(written) == 3
