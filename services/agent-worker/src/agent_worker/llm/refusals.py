"""What a model is told when its response cannot be used, in the words of pydantic-ai.

A response that cannot be mended by asking again is an error of the model.
"""

from collections.abc import Iterable

from pydantic_ai.exceptions import (
    ContentFilterError,
    IncompleteToolCall,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelResponse, RetryFeedbackPart, RetryInfo, ToolCallPart, ToolReturnPart
from pydantic_core import ValidationError, from_json

from agent_worker.llm.models import AgentModel

_HELP = (
    "Increase the `max_tokens` model setting, or simplify the prompt to result in a shorter response "
    "that will fit within the limit."
)


def unknown_tool(call: ToolCallPart, known: Iterable[str]) -> ToolReturnPart:
    """The result of a call of a tool that does not exist."""
    names = ", ".join(repr(name) for name in sorted(known))
    text = f"Available tools: {names}" if names else "No tools available."
    return ToolReturnPart(
        call.tool_name,
        f"Unknown tool name: {call.tool_name!r}. {text}",
        call.tool_call_id,
        outcome="retried",
        retry=RetryInfo("unknown_tool"),
    )


def bad_arguments(call: ToolCallPart, error: ValidationError) -> ToolReturnPart:
    """The result of a call whose arguments are no JSON object."""
    faults: list[object] = from_json(error.json(include_url=False, include_context=False))
    return ToolReturnPart(
        call.tool_name, faults, call.tool_call_id, outcome="retried", retry=RetryInfo("validation_error")
    )


def refused_again(call: ToolCallPart, response: ModelResponse, model: AgentModel) -> UnexpectedModelBehavior:
    """The error of a second call with arguments that are no JSON object."""
    if response.finish_reason == "length" and response.parts[-1] is call:
        return IncompleteToolCall(
            f"Model token limit ({_limit(model)}) exceeded while generating a tool call, "
            f"resulting in incomplete arguments. {_HELP}"
        )
    return UnexpectedModelBehavior(f"Tool {call.tool_name!r} exceeded max retries count of 1.")


def no_output(response: ModelResponse, model: AgentModel, *, has_tools: bool, again: bool) -> RetryFeedbackPart:
    """The request for text or a call, after a response that had neither.

    Raises:
        UnexpectedModelBehavior: it was cut off or filtered, or it happens again.
    """
    if response.finish_reason == "length":
        raise OutputTokenLimitExceeded(
            f"Model token limit ({_limit(model)}) exceeded before any response was generated. {_HELP}"
        )
    if response.finish_reason == "content_filter":
        raise ContentFilterError(_filtered(response))
    if again:
        raise UnexpectedModelBehavior("Exceeded maximum output retries (1)")
    text = "Please return text or call a tool." if has_tools else "Please return text."
    return RetryFeedbackPart(content=text, retry=RetryInfo("no_output"))


def _limit(model: AgentModel) -> int | str:
    return model.settings.get("max_tokens") or "provider default"


def _filtered(response: ModelResponse) -> str:
    details = response.provider_details or {}
    reasons = [
        f"{title}: {details[name]!r}"
        for name, title in (("finish_reason", "Finish reason"), ("refusal", "Refusal"))
        if details.get(name)
    ]
    return f"Content filter triggered. {'. '.join(reasons)}".rstrip()
