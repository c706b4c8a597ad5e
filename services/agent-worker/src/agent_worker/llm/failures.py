"""Maps errors of a run to failures of a turn.

Providers quote requests, addresses and parts of keys in their errors; these are redacted.
"""

import re
from collections.abc import Mapping
from typing import cast

import httpx2
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
)

from pallas_contracts.turns import ModelFault
from pallas_hosting.redact import redact
from pallas_mcp_calls.model_answers import AnswerRefused
from pallas_turns.runtime import Failed

_OVERFLOW = re.compile(
    r"(?i)context[ _-]?(?:length|window|size)|maximum context|prompt is too long|too many (?:input )?tokens"
)


class RunFailed(Exception):
    """A run of an agent ended without an answer; `failed` is the reason."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.code)
        self.failed = failed


def run_failure(error: AgentRunError, model: str) -> Failed:
    """The failure of the turn that an error of pydantic-ai causes."""
    if isinstance(error, ModelContextWindowExceededError) or _says_overflow(error):
        text = "message and history do not fit the model's context window; send less of the history"
        return Failed("context_overflow", text)
    return Failed("model_failed", f"the model {model!r} failed: {_text(error)}", retryable=_may_pass(error))


def fault_of(error: AgentRunError) -> ModelFault:
    """Why a model did not answer, in one word."""
    if isinstance(error, ModelContextWindowExceededError) or _says_overflow(error):
        return "context_overflow"
    if isinstance(error, ModelHTTPError):
        return _fault_of_status(error.status_code)
    match error:
        case ModelRateLimitError() | ModelQuotaExceededError():
            return "rate_limited"
        case ModelTimeoutError() | ModelRequestTimeout():
            return "timeout"
        case ModelConnectionError():
            return "unreachable"
        case ModelRequestRejectedError():
            return "refused"
        case ModelAPIError():
            return "server_error"
        case _:
            return "invalid_response"


def _fault_of_status(status: int) -> ModelFault:
    known: dict[int, ModelFault] = {408: "timeout", 429: "rate_limited"}
    return known.get(status) or ("server_error" if status >= 500 else "refused")


def _says_overflow(error: AgentRunError) -> bool:
    # OpenAI-compatible local servers report overflow in various words, with a 400 or even a 500.
    return isinstance(error, ModelHTTPError) and bool(_OVERFLOW.search(str(error.body)))


def _may_pass(error: AgentRunError) -> bool:
    if isinstance(error, ModelHTTPError):
        return error.status_code in (408, 429) or error.status_code >= 500
    return isinstance(error, ModelRateLimitError | ModelUnavailableError | ModelServerError | ModelConnectionError)


def _text(error: AgentRunError) -> str:
    if isinstance(error, ModelHTTPError):
        reason = _provider_message(error.body)
        return f"status {error.status_code}" + (f", {redact(reason)}" if reason else "")
    if isinstance(error, ModelConnectionError):
        broken = _broken_off(error)
        if isinstance(broken, AnswerRefused):
            return str(broken)
        return "its answer broke off" if broken is not None else "it cannot be reached"
    return redact(error.message)


def _broken_off(error: BaseException | None) -> BaseException | None:
    while error is not None and not isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError):
        error = error.__cause__
    return error


def _provider_message(body: object) -> str | None:
    """Find the sentence in the shapes that providers use: `{error: {message}}`, `{message}`, `{error}`, `{detail}`."""
    if not isinstance(body, Mapping):
        return None
    fields = cast("Mapping[str, object]", body)
    for name in ("error", "message", "detail"):
        value = fields.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, Mapping):
            return _provider_message(cast("Mapping[str, object]", value))
    return None
