"""Which tool answers messages, and which arguments it gets."""

from typing import Any

import pytest
from mcp_types import Tool

from pallas_mcp_calls.model import CallFailed
from pallas_mcp_calls.tools import choose, fitting

ARGUMENTS: dict[str, Any] = {"message": "hello", "history": [], "conversation_id": "c1"}


def tool(name: str, **schema: Any) -> Tool:
    return Tool(name=name, input_schema={"type": "object", **schema})


@pytest.mark.parametrize(
    ("names", "agent", "chosen"),
    [
        (["get_health", "harper"], "pallas-harper", "harper"),
        (["harper", "send_message", "get_health"], "pallas-harper", "harper"),
        (["other", "harper"], "harper", "harper"),
        (["other", "tech_research"], "pallas-tech-research", "tech_research"),
        (["other", "pallas-harper"], "pallas-harper", "pallas-harper"),
        (["other", "send_message"], "pallas-harper", "send_message"),
        (["get_health", "ask", "other"], "pallas-harper", "ask"),
        (["ask", "send_message"], None, "send_message"),
        (["get_health"], "pallas-harper", None),
        (["get_health", "ask"], "get_health", "ask"),
        ([], None, None),
    ],
    ids=range(11),
)
def test_the_tool_is_that_of_the_agent(names: list[str], agent: str | None, chosen: str | None) -> None:
    found = choose([tool(name) for name in names], agent)
    assert (found.name if found else None) == chosen


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({}, ["message", "history", "conversation_id"]),
        ({"properties": {}}, ["message", "history", "conversation_id"]),
        ({"properties": {"message": {}}}, ["message"]),
        ({"properties": {"message": {}, "history": {}}, "additionalProperties": False}, ["message", "history"]),
        ({"properties": {"message": {}}, "additionalProperties": True}, ["message", "history", "conversation_id"]),
        ({"properties": {"message": {}}, "additionalProperties": {}}, ["message", "history", "conversation_id"]),
        ({"properties": ["message"]}, ["message", "history", "conversation_id"]),
    ],
    ids=range(7),
)
def test_a_tool_gets_what_its_schema_describes(schema: dict[str, Any], given: list[str]) -> None:
    assert list(fitting(tool("harper", **schema), ARGUMENTS)) == given


def test_a_message_is_never_left_out_silently() -> None:
    with pytest.raises(CallFailed, match="takes no message: its tool takes city, history"):
        fitting(tool("harper", properties={"city": {}, "history": {}}), ARGUMENTS)
