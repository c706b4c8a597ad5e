"""Run by the worker's Python: what `project/shorter.py` stands in for gives the same results, or an assertion fails."""

import asyncio
from itertools import product
from typing import Any, get_args, is_typeddict

from fast_agent.agents.llm_decorator import LlmDecorator
from fast_agent.config import Settings
from fast_agent.llm import provider_key_manager
from fast_agent.llm.request_param_resolution import merge_request_params
from fast_agent.llm.request_params import BatchRequestContext, RequestParams
from fast_agent.types import PromptMessageExtended
from mcp_types import CallToolResult, ModelPreferences, TextContent
from openai import NOT_GIVEN, omit
from openai._utils._transform import PropertyInfo, async_maybe_transform, get_type_hints
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from fast_agent_worker.project.shorter import joining, looking_up, merging, transforming

BODIES = (CompletionCreateParamsStreaming, ResponseCreateParamsStreaming)
PARAMS: list[dict[str, Any]] = [
    {},
    {"model": "a", "max_tokens": 3, "use_history": False},
    {"streaming_timeout": None},
    {"streaming_timeout": 2.5, "temperature": 0.5, "max_iterations": 1},
    {"template_vars": {"a": {"b": 1}}, "mcp_metadata": {"x": [1]}},
    {"structured_schema": {}, "stop_sequences": [], "messages": []},
    {"stop_sequences": ["x"], "response_format": {"type": "json"}},
    {
        "model_preferences": ModelPreferences(cost_priority=1),
        "batch_context": BatchRequestContext(row_number=1, identity=2),
    },
    {"tool_execution_handler": object(), "system_prompt": "say"},
]


def merges() -> None:
    """Parameters are merged alike, also which of them are set; what is merged shares nothing that may change."""
    merged = merging(merge_request_params)
    for one, two in product(PARAMS, PARAMS):
        given, asked = RequestParams(**one), RequestParams(**two)
        mine, theirs = merged(given, asked), merge_request_params(given, asked)
        assert mine == theirs, (one, two)
        assert mine.model_fields_set == theirs.model_fields_set, (one, two)
        assert mine.tool_execution_handler is theirs.tool_execution_handler
        assert mine.template_vars is not given.template_vars


def looks_up() -> None:
    """Keys of providers are found alike."""
    theirs = provider_key_manager._get_config_value
    mine = looking_up(theirs)
    config = Settings.model_validate({"generic": {"api_key": "k"}, "own": {"api_key": "o"}})
    for key in ("generic", "openai", "own", "missing", "model_dump"):
        found, wanted = mine(config, key), theirs(config, key)
        assert bool(found) == bool(wanted), key
        assert mine(found, "api_key") == theirs(wanted, "api_key"), key


def joins() -> None:
    """Messages are joined alike."""
    theirs = LlmDecorator._merge_trailing_tool_result_turn
    mine = joining(theirs)
    result = CallToolResult(content=[TextContent(type="text", text="r")])
    kinds: list[dict[str, Any]] = [
        {"role": "user", "content": [TextContent(type="text", text="u")]},
        {"role": "user", "content": [], "tool_results": {"1": result}},
        {"role": "assistant", "content": [TextContent(type="text", text="a")]},
    ]
    for chosen in (it for length in range(4) for it in product(kinds, repeat=length)):
        messages = [PromptMessageExtended(**it) for it in chosen]
        assert mine(messages) == theirs(messages), chosen


async def transforms() -> None:
    """Bodies are sent alike, and no type of theirs has a name or a format that is another in JSON."""
    mine = transforming(async_maybe_transform)
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "t"}]},
            {"role": "assistant", "tool_calls": [call]},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
        "stream": True,
        "temperature": omit,
        "top_p": NOT_GIVEN,
        "stop": None,
    }
    others = [body | {"messages": ({"role": "user", "content": "t"},)}, body | {"metadata": {"a": omit}}, {}, None]
    for each in (body, *others):
        assert await mine(each, BODIES[0]) == await async_maybe_transform(each, BODIES[0])
    assert not any(marks(it, set()) for it in BODIES)


def marks(kind: Any, seen: set[Any]) -> bool:
    """Whether a type, or one inside it, has a name or a format of its own."""
    if any(isinstance(it, PropertyInfo) for it in getattr(kind, "__metadata__", ())):
        return True
    if is_typeddict(kind):
        if kind in seen:
            return False
        seen.add(kind)
        return any(marks(it, seen) for it in get_type_hints(kind, include_extras=True).values())
    return any(marks(it, seen) for it in get_args(kind) if not isinstance(it, str | int))


merges()
looks_up()
joins()
asyncio.run(transforms())
