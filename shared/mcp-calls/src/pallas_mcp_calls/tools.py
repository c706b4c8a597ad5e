"""Which tool of an agent answers messages, and which arguments it takes."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import Tool

GET_HEALTH = "get_health"
SEND_MESSAGE = "send_message"
_PREFIX = "pallas-"


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
    """The arguments that the tool's schema describes: servers that are not ours refuse others, or the whole call."""
    schema: dict[str, Any] = tool.input_schema
    described: object = schema.get("properties")
    others: object = schema.get("additionalProperties", False)
    if not isinstance(described, dict) or not described or others is True or isinstance(others, dict):
        return dict(arguments)
    return {name: value for name, value in arguments.items() if name in described}
