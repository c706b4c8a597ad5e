"""Maps how fast-agent ends a run to the outcome of a turn.

Errors of providers come back as answers of the assistant, with their status in a channel. Their texts quote requests
and parts of keys, so they are not passed on.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from fast_agent.constants import FAST_AGENT_ERROR_CHANNEL, FAST_AGENT_PROVIDER_ERROR
from fast_agent.core.exceptions import (
    FastAgentError,
    ModelConfigError,
    ProviderKeyError,
    ServerInitializationError,
    walk_exception_chain,
)
from fast_agent.types.llm_stop_reason import LlmStopReason
from mcp_types import ImageContent

from pallas_contracts.turns import Result
from pallas_executor.agent_runtime import Completed, Failed, Outcome

_OVERFLOW = re.compile(
    r"(?i)context[ _-]?(?:length|window|size)|maximum context|prompt is too long|too many (?:input )?tokens"
)
_TOO_LONG = Failed(
    "context_overflow", "message and history do not fit the model's context window; send less of the history"
)
_MAY_PASS = (408, 429)


def outcome_of(message: Any, agent: str) -> Outcome:
    """The outcome of a run that returned a message."""
    match message.stop_reason:
        case LlmStopReason.ERROR:
            return _provider_failure(message)
        case LlmStopReason.CANCELLED:
            return Failed("internal", "the agent cancelled itself")
        case LlmStopReason.TIMEOUT:
            return Failed("turn_timeout", f"agent {agent!r} exceeded the time limit of its model")
        case LlmStopReason.MAX_ITERATIONS | LlmStopReason.TOOL_USE:
            return too_many(agent)
        case LlmStopReason.SAFETY:
            return Completed(Result(content=_content(message) or _text("the model refused to answer"), is_error=True))
        case _:
            pass
    content = _content(message)
    if not content:
        return Failed("model_failed", "the model gave no text", retryable=True)
    cut = message.stop_reason in (LlmStopReason.MAX_TOKENS, LlmStopReason.PAUSE)
    return Completed(Result(content=content, meta={"pallas/truncated": True} if cut else None))


def too_many(agent: str) -> Failed:
    """The failure of a run that called its model too often."""
    return Failed("iterations_exceeded", f"agent {agent!r} gave no answer within its iterations")


def failure_of(error: BaseException) -> Failed:
    """The failure that an exception of a run causes.

    Raises:
        BaseException: it is none of fast-agent or of a provider.
    """
    for each in walk_exception_chain(error):
        if _OVERFLOW.search(str(each)):
            return _TOO_LONG
        status = getattr(each, "status_code", None)
        if isinstance(status, int):
            return _failed(status)
    match error:
        case ModelConfigError():
            return Failed("unknown_model", "fast-agent does not know this model, or it is not configured")
        case ProviderKeyError():
            return Failed("model_failed", "the model's provider has no key")
        case ServerInitializationError():
            return Failed("model_failed", "a server of the agent cannot be reached", retryable=True)
        case FastAgentError():
            return Failed("internal", f"fast-agent refused the turn: {type(error).__name__}")
        case _:
            raise error


def _provider_failure(message: Any) -> Failed:
    channels: Mapping[str, Any] = message.channels or {}
    texts = " ".join(getattr(block, "text", "") for block in channels.get(FAST_AGENT_ERROR_CHANNEL, ()))
    if _OVERFLOW.search(texts):
        return _TOO_LONG
    for block in channels.get(FAST_AGENT_PROVIDER_ERROR, ()):
        said = json.loads(block.text)
        if said.get("status") is not None:
            return _failed(said["status"])
        return Failed("model_failed", f"the model failed: {said.get('error_type')}", retryable=True)
    return Failed("model_failed", "the model failed")


def _failed(status: int) -> Failed:
    return Failed("model_failed", f"the model failed: status {status}", retryable=status in _MAY_PASS or status >= 500)


def _content(message: Any) -> tuple[dict[str, Any], ...]:
    """The text of an answer as one block, and its images."""
    text = message.all_text()
    images = (block for block in message.content if isinstance(block, ImageContent))
    blocks = tuple({"type": "image", "data": it.data, "mimeType": it.mime_type} for it in images)
    return (*(_text(text) if text.strip() else ()), *blocks)


def _text(text: str) -> tuple[dict[str, Any], ...]:
    return ({"type": "text", "text": text},)
