"""Log messages of the handshake era: a session sets its level once, and it applies to every later call."""

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
def log_messages() -> list[str]:
    """The log messages that the client has received."""
    return []


@pytest.fixture
async def client(conformance_url: str, log_messages: list[str]) -> AsyncGenerator[Client]:
    """The official client, connected in the handshake era."""

    async def write(params: LoggingMessageNotificationParams) -> None:
        log_messages.append(str(params.data))

    async with Client(conformance_url, mode="legacy", logging_callback=write) as connected:
        yield connected


async def set_level(client: Client, level: LoggingLevel) -> None:
    """Set the session's log level. The client's own method is deprecated because of the next revision."""
    await client.session.send_request(SetLevelRequest(params=SetLevelRequestParams(level=level)), EmptyResult)


async def test_a_session_without_a_log_level_gets_every_log_message(client: Client, log_messages: list[str]) -> None:
    assert client.server_capabilities.logging is not None
    await client.call_tool("test_tool_with_logging", {})
    assert log_messages == [f"Tool execution {said}" for said in ("started", "processing data", "completed")]


async def test_a_session_gets_log_messages_of_its_level_and_above(client: Client, log_messages: list[str]) -> None:
    await set_level(client, "warning")
    await client.call_tool("test_tool_with_logging", {})
    assert log_messages == []
    await set_level(client, "debug")
    await client.call_tool("test_tool_with_logging", {})
    assert len(log_messages) == 3
