"""Asks people by the tool `__human_input`: the turn ends with a question, and the caller's answer goes on with it.

What was said so far goes to the caller with the question, sealed by the gateway, and comes back with the answer. So any
worker can go on, and none keeps anything. A caller that cannot be asked, or an agent that is not the called one, gets
the answer that nobody can be asked.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fast_agent.constants import HUMAN_INPUT_TOOL_NAME
from fast_agent.mcp.prompt_serialization import from_json, to_json
from fast_agent.tools.elicitation import (
    _coerce_elicitation_arguments,
    _resolve_elicitation_schema,
    _validate_elicitation_schema_field_limit,
)
from fast_agent.types import PromptMessageExtended
from mcp_types import CallToolResult, TextContent

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import InputRequired, TurnError

NOBODY = "No person can be asked here. Go on without an answer, or say what you need to know."
_ANSWER = "answer"
_INVALID: TurnError = "invalid_arguments"


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run that was stopped: what was said, and the message with the person's answer."""

    history: list[PromptMessageExtended]
    answer: PromptMessageExtended


def question_of(said: Sequence[PromptMessageExtended], message: PromptMessageExtended) -> InputRequired | None:
    """The question of a model's answer that calls the tool, and no other tool; `said` is what the model was told.

    None: the answer does not, or asks nothing clear.
    """
    calls = list((message.tool_calls or {}).items())
    if len(calls) != 1 or calls[0][1].params.name != HUMAN_INPUT_TOOL_NAME:
        return None
    call_id, call = calls[0]
    try:
        asked = _resolve_elicitation_schema(_coerce_elicitation_arguments(call.params.arguments or {}))
        _validate_elicitation_schema_field_limit(asked.schema)
    except (ValueError, AssertionError):
        return None
    prompt = asked.message or asked.schema.get("title") or "Please complete this form:"
    params = {"mode": "form", "message": prompt, "requestedSchema": asked.schema}
    state = json.dumps({"call": call_id, "said": to_json([*said, message], indent=None)})
    return InputRequired(
        input_requests={_ANSWER: {"method": "elicitation/create", "params": params}}, request_state=state
    )


def resumed(state: str, responses: JsonObject | None) -> Resumed:
    """What a caller has sent back.

    Raises:
        Rejected: it is nothing that was sent to a caller.
    """
    try:
        read: JsonObject = json.loads(state)
        history, call_id = from_json(read["said"]), str(read["call"])
    except (ValueError, KeyError, TypeError) as error:
        raise Rejected("the state of the request cannot be read", code=_INVALID) from error
    text = _said((responses or {}).get(_ANSWER))
    result = CallToolResult(content=[TextContent(type="text", text=text)])
    return Resumed(history, PromptMessageExtended(role="user", content=[], tool_results={call_id: result}))


def _said(response: Any) -> str:
    """The answer in the words that fast-agent has for it."""
    match response:
        case {"action": "accept", "content": content}:
            return json.dumps(content)
        case {"action": "decline"}:
            return "The Human declined the input request"
        case _:
            return "The Human cancelled the input request"


def nobody() -> CallToolResult:
    """The answer of the tool where nobody can be asked."""
    return CallToolResult(content=[TextContent(type="text", text=NOBODY)])
