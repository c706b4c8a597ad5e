"""How errors of a model become failures of a turn."""

import pytest
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    UnexpectedModelBehavior,
)

from agent_worker.llm.failures import run_failure
from pallas_hosting.redact import redact


@pytest.mark.parametrize(
    "error",
    [
        ModelContextWindowExceededError("m", "too long"),
        ModelHTTPError(400, "m", {"error": {"message": "This model's maximum context length is 4096 tokens"}}),
        ModelHTTPError(500, "m", {"message": "the request exceeds the available context size"}),
        ModelHTTPError(400, "m", {"message": "prompt is too long: 210000 tokens > 200000 maximum"}),
    ],
)
def test_a_request_that_exceeds_the_context_window_is_context_overflow(error: ModelAPIError) -> None:
    assert run_failure(error, "m").code == "context_overflow"


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (ModelHTTPError(400, "m", {"error": "bad"}), False),
        (ModelHTTPError(401, "m", {"error": "no"}), False),
        (ModelHTTPError(429, "m", {"error": "slow down"}), True),
        (ModelHTTPError(503, "m", None), True),
        (ModelConnectionError("m", "refused"), True),
        (UnexpectedModelBehavior("nonsense"), False),
    ],
)
def test_a_model_failure_says_whether_it_is_retryable(error: Exception, retryable: bool) -> None:
    assert isinstance(error, ModelAPIError | UnexpectedModelBehavior)
    failed = run_failure(error, "m")
    assert (failed.code, failed.retryable) == ("model_failed", retryable)


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-abc-hunter2secret.",
        "Authorization: Bearer hunter2secret",
        'sent {"api_key": "hunter2secret"}',
        "cannot reach https://user:hunter2secret@llm.example/v1?key=hunter2secret",
        "token=hunter2secret",
        "bad eyJhbGciOi.hunter2secret.sig",
    ],
)
def test_credentials_are_redacted_from_messages(text: str) -> None:
    assert "hunter2secret" not in redact(text)
    assert "hunter2secret" not in run_failure(ModelHTTPError(401, "m", {"error": {"message": text}}), "m").message
