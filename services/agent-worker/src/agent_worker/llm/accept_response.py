"""Makes a model's response usable: valid text, possible numbers of tokens, and an id of its own for each tool call.

What a model has answered is paid, so it is mended here rather than refused later.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, count

from pydantic import TypeAdapter
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse, ModelResponsePart, ToolCallPart
from pydantic_ai.usage import RequestUsage
from pydantic_core import PydanticSerializationError

from pallas_contracts.costs import whole_tokens
from pallas_contracts.valid import valid_json

_RESPONSE = TypeAdapter(ModelResponse)
_WITHIN = {
    "cache_read_tokens": "input_tokens",
    "cache_write_tokens": "input_tokens",
    "output_reasoning_tokens": "output_tokens",
}
"""Tokens that are part of others. Some providers report more of them than of the whole."""


def accept_response(response: ModelResponse) -> ModelResponse:
    """The response as the rest of the run, the log and the next request can take it.

    Raises:
        UnexpectedModelBehavior: it cannot be mended.
    """
    response = replace(response, usage=_possible(response.usage), parts=_distinct(response.parts))
    try:
        _RESPONSE.dump_json(response)
    except PydanticSerializationError:  # half of a surrogate pair
        try:
            return _RESPONSE.validate_python(valid_json(_RESPONSE.dump_python(response, mode="json")))
        except ValueError as error:
            raise UnexpectedModelBehavior("The response is not valid JSON") from error
    return response


def _possible(usage: RequestUsage) -> RequestUsage:
    usage = copy(usage)
    for name, tokens in list(vars(usage).items()):
        if name.endswith("_tokens"):
            setattr(usage, name, whole_tokens(tokens))
    usage.details = {name: whole_tokens(tokens) for name, tokens in usage.details.items()}
    for part, of in _WITHIN.items():
        setattr(usage, part, min(getattr(usage, part), getattr(usage, of)))
    return usage


def _distinct(parts: Sequence[ModelResponsePart]) -> list[ModelResponsePart]:
    """The parts. Some providers give all calls of one tool the same id, by which results are told apart."""
    taken = set[str]()
    found: list[ModelResponsePart] = []
    for part in parts:
        if isinstance(part, ToolCallPart):
            given = part.tool_call_id
            ids = chain([given], (f"{given}_{number}" for number in count(2)))
            free = next(each for each in ids if each not in taken)
            taken.add(free)
            found.append(part if free == given else replace(part, tool_call_id=free))
        else:
            found.append(part)
    return found
