"""The tools and prompts of an agent, exactly as in the interface contract, in both eras."""

from typing import Any, cast

import pytest
from mcp import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND
from tests.e2e.calls import call
from tests.e2e.lab import Era, Lab
from tests.requirements import requirement

IMAGE_LIST = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"data": {"type": "string"}, "mime_type": {"type": "string"}},
        "required": ["data", "mime_type"],
    },
}
ARGUMENTS = {
    "type": "object",
    "properties": {
        "message": {"type": "string"},
        "images": IMAGE_LIST,
        "history": {"type": "array"},
        "conversation_id": {"type": "string"},
    },
    "required": ["message"],
    "additionalProperties": False,
}


def without_descriptions(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Any]", schema)  # JSON objects have string keys
    texts = {name for name, value in fields.items() if name == "description" and isinstance(value, str)}
    return {name: without_descriptions(value) for name, value in fields.items() if name not in texts}


@requirement("P-3.1", "P-6.1", "P-2.2", "P-2.5")
async def test_an_agent_lists_only_a_tool_of_its_own_name_and_get_health(lab: Lab, era: Era) -> None:
    async with lab.client("plain", era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == ["plain", "get_health"]
    assert tools["plain"].description == "Answers without tools, on a model that cannot see"
    assert without_descriptions(tools["plain"].input_schema) == ARGUMENTS


@requirement("P-2.13")
async def test_the_history_prompt_exists_and_is_always_empty(lab: Lab, era: Era) -> None:
    async with lab.client("plain", era) as client:
        prompts = await client.list_prompts()
        await call(client, "plain", "/say something that could be remembered")
        history = await client.get_prompt("plain_history")
    assert [prompt.name for prompt in prompts.prompts] == ["plain_history"]
    assert history.messages == []


async def test_an_unknown_prompt_is_a_protocol_error(lab: Lab, era: Era) -> None:
    async with lab.client("plain", era) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("seer_history")
    assert caught.value.error.code == INVALID_PARAMS


@requirement("P-6.1")
async def test_an_agent_without_resources_lists_none(lab: Lab, era: Era) -> None:
    async with lab.client("plain", era) as client:
        assert client.server_capabilities.resources is None
        with pytest.raises(MCPError) as caught:
            await client.list_resources()
    assert caught.value.error.code == METHOD_NOT_FOUND


async def test_an_agent_reports_its_name_title_and_version(lab: Lab, era: Era) -> None:
    async with lab.client("plain", era) as client:
        info = client.server_info
    assert info is not None
    assert (info.name, info.title, info.version) == ("plain", "Plain", "1.2.3")
