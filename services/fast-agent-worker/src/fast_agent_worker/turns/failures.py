"""Maps how fast-agent ends a run to the outcome of a turn.

Errors of providers come back as answers of the assistant, with their status in a channel. Their texts quote requests
and parts of keys, so they are not passed on.
"""

import json
import re
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

from pallas_contracts.turns import ModelFault, Result
from pallas_teams import UNBOUNDED, AgentConfig
from pallas_turns.runtime import Completed, Failed, Outcome

_OVERFLOW = re.compile(
    r"(?i)context[ _-]?(?:length|window|size)|maximum context|prompt is too long|too many (?:input )?tokens"
)
_TOO_LONG = Failed(
    "context_overflow", "message and history do not fit the model's context window; send less of the history"
)
_MAY_PASS = (408, 429)


def outcome_of(message: Any, agent: AgentConfig) -> Outcome:
    """The outcome of a run that returned a message.

    Where only its source bounds an agent's iterations, what its model has said until then is the answer.
    """
    match message.stop_reason:
        case LlmStopReason.ERROR:
            return _provider_failure(message)
        case LlmStopReason.CANCELLED:
            return Failed("internal", "the agent cancelled itself")
        case LlmStopReason.TIMEOUT:
            return Failed("turn_timeout", f"agent {agent.name!r} exceeded the time limit of its model")
        case LlmStopReason.TOOL_USE:
            return _used_up(agent)
        case _:
            content = _content(message)
    match message.stop_reason:
        case LlmStopReason.MAX_ITERATIONS if not content or agent.max_iterations != UNBOUNDED:
            return _used_up(agent)
        case LlmStopReason.SAFETY:
            return Completed(Result(content=content or _text("the model refused to answer"), is_error=True))
        case _ if not content:
            return Failed("model_failed", "the model gave no text", retryable=True)
        case LlmStopReason.MAX_TOKENS | LlmStopReason.PAUSE | LlmStopReason.MAX_ITERATIONS:
            return Completed(Result(content=content, meta={"pallas/truncated": True}))
        case _:
            return Completed(Result(content=content))


def _used_up(agent: AgentConfig) -> Failed:
    return Failed("iterations_exceeded", f"agent {agent.name!r} gave no answer within its iterations")


def failure_of(error: BaseException, model_error: BaseException | None) -> Failed:
    """The failure that an exception of a run causes. `model_error` is what the last call of a model raised.

    Raises:
        BaseException: it is none of fast-agent or of a model.
    """
    if _says_overflow(error):
        return _TOO_LONG
    if (status := _status(error)) is not None:
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
        case ImportError():
            return Failed("model_failed", "a package that the model's provider needs is not installed")
        case _ if model_error is not None and model_error in walk_exception_chain(error):
            return _without_answer(model_error)
        case _:
            raise error


def _without_answer(error: BaseException) -> Failed:
    """The failure of a call of a model that raised what is no status: each provider's client has errors of its own.

    Those of Python itself are faults of the request or of the client, which the next call has as well.
    """
    kinds = [type(each) for each in walk_exception_chain(error)]
    passing = any(kind.__module__ != "builtins" or issubclass(kind, OSError) for kind in kinds)
    return Failed("model_failed", f"the model failed: {kinds[0].__name__}", retryable=passing)


def fault_of(ended: Any) -> ModelFault:
    """Why a model did not answer, in one word: from an exception, or from a message that says so."""
    if _says_overflow(ended):
        return "context_overflow"
    status = _status(ended)
    known: dict[int | None, ModelFault] = {None: "unreachable", 408: "timeout", 429: "rate_limited"}
    return known.get(status) or ("server_error" if (status or 0) >= 500 else "refused")


def _provider_failure(message: Any) -> Failed:
    if _says_overflow(message):
        return _TOO_LONG
    if (status := _status(message)) is not None:
        return _failed(status)
    kinds = [said.get("error_type") for said in _said(message)]
    return Failed("model_failed", f"the model failed{f': {kinds[0]}' if kinds else ''}", retryable=bool(kinds))


def _says_overflow(ended: Any) -> bool:
    if isinstance(ended, BaseException):
        return any(_OVERFLOW.search(str(each)) for each in walk_exception_chain(ended))
    blocks = (ended.channels or {}).get(FAST_AGENT_ERROR_CHANNEL, ())
    return bool(_OVERFLOW.search(" ".join(getattr(block, "text", "") for block in blocks)))


def _status(ended: Any) -> int | None:
    """The status of a provider's response; None if there was none."""
    if isinstance(ended, BaseException):
        names = ("status_code", "code")  # google's errors have the status as their code
        found = [getattr(each, name, None) for each in walk_exception_chain(ended) for name in names]
    else:
        found = [said.get("status") for said in _said(ended)]
    return next((status for status in found if isinstance(status, int)), None)


def _said(message: Any) -> list[dict[str, Any]]:
    """What fast-agent says of a provider's failure."""
    return [json.loads(block.text) for block in (message.channels or {}).get(FAST_AGENT_PROVIDER_ERROR, ())]


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
