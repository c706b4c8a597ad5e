"""Which tool of an agent answers messages, and which arguments it takes."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import Tool

from pallas_mcp_calls.model import CallFailed

GET_HEALTH = "get_health"
SEND_MESSAGE = "send_message"
_PREFIX = "pallas-"
_LONGEST_LIST = 200
"""Characters of the names of arguments in an error."""


def choose(tools: Sequence[Tool], agent: str | None) -> Tool | None:
    """The tool named as the agent (its server id without `pallas-`), else `send_message`, else the first one."""
    able = [tool for tool in tools if tool.name != GET_HEALTH]
    name = (agent or "").removeprefix(_PREFIX)
    wanted = {name, name.replace("-", "_"), agent}
    for preferred in (wanted, {SEND_MESSAGE}):
        for tool in able:
            if tool.name in preferred:
                return tool
    return able[0] if able else None


def fitting(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the tool's schema describes: servers that are not ours refuse others, or the whole call.

    Raises:
        CallFailed: the message would be left out.
    """
    schema: dict[str, Any] = tool.input_schema
    described: object = schema.get("properties")
    others: object = schema.get("additionalProperties", False)
    if not isinstance(described, dict) or not described or others is True or isinstance(others, dict):
        return dict(arguments)
    given = {name: value for name, value in arguments.items() if name in described}
    if "message" in arguments and "message" not in given:
        names = ", ".join(schema["properties"])[:_LONGEST_LIST]
        raise CallFailed(f"the agent takes no message: its tool takes {names}", code="no_tool", sent=False)
    return given
