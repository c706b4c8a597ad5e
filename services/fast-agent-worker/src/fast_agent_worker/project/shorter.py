"""Shorter ways to what fast-agent and OpenAI's client compute for each call of a model. The results are the same.

Each stands in for one function and takes the cases that are usual; it leaves all others to that function.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fast_agent.agents.llm_decorator import LlmDecorator
from fast_agent.llm import fastagent_llm, provider_key_manager
from fast_agent.llm.request_param_resolution import merge_request_params
from fast_agent.llm.request_params import RequestParams
from pydantic import BaseModel

_ATOMS = frozenset({str, int, float, bool, type(None)})


def shorten() -> None:
    """Replace what takes long.

    - Merging the parameters of a request, ten times in a turn: both models become dictionaries and a model again.
    - Looking up the key of a provider: all settings become a dictionary.
    - Joining the last two messages: all are copied first, whether or not the last two are to be joined.
    """
    fastagent_llm.__dict__["merge_request_params"] = merging(merge_request_params)
    provider_key_manager._get_config_value = looking_up(provider_key_manager._get_config_value)
    LlmDecorator._merge_trailing_tool_result_turn = staticmethod(joining(LlmDecorator._merge_trailing_tool_result_turn))


def merging(merge: Callable[..., RequestParams]) -> Callable[..., RequestParams]:
    """Merges parameters none of whose values is merged itself, as a dictionary or a model would be."""
    named = frozenset(name for name, it in RequestParams.model_fields.items() if not it.exclude)

    def merged(default_params: RequestParams, provided_params: RequestParams) -> RequestParams:
        changed = {name: getattr(provided_params, name) for name in provided_params.model_fields_set & named}
        values = {**default_params.__dict__, **changed, "tool_execution_handler": None}
        others = {name: value for name, value in values.items() if type(value) not in _ATOMS}
        if any(others.values()):
            return merge(default_params, provided_params)
        result = default_params.model_copy(update=changed | {name: type(value)() for name, value in others.items()})
        asked = default_params.model_fields_set | provided_params.model_fields_set
        result.__pydantic_fields_set__ = set(named if "streaming_timeout" in asked else named - {"streaming_timeout"})
        return result

    return merged


def looking_up(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Looks a field of settings up without looking at the others."""

    def looked_up(config: Any, key: str) -> Any:
        if not isinstance(config, BaseModel):
            return look_up(config, key)
        return config.__dict__.get(key, (config.model_extra or {}).get(key))

    return looked_up


def joining(join: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Joins the last two messages only if they are results of tools and what a person said then."""

    def joined(messages: list[Any]) -> list[Any]:
        results = len(messages) > 1 and messages[-2].role == "user" and bool(messages[-2].tool_results)
        return join(messages) if results else messages

    return joined


def transforming(transform: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Sends a body that is plain JSON as it is, without what is omitted.

    OpenAI's client compares each value with each type that it may have, to find names and formats that are others in
    JSON. The bodies of `chat.completions` and `responses` have none.
    """
    from openai import NotGiven, Omit

    async def transformed(data: Any, expected_type: object) -> Any:
        if isinstance(data, Mapping):
            given = {key: it for key, it in data.items() if not isinstance(it, Omit | NotGiven)}
            if _is_plain(given):
                return given
        return await transform(data, expected_type)

    return transformed


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(map(_is_plain, value.values()))
    return kind in _ATOMS or (kind is list and all(map(_is_plain, value)))
