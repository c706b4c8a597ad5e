"""What a step answered, as JSON text in the journal: a result, a failure, or that its function has cancelled it.

Every attempt reads an answer from the text, also the first one, so that all get the same.
"""

import asyncio
import json
import logging
from typing import Any

from pallas_executor.redact import redact

log = logging.getLogger(__name__)

CANCELLED = '{"cancelled": true}'
"""The answer of a step that its function has cancelled."""


class StepFailed(Exception):
    """A step failed, in this attempt or in an earlier one.

    `kind` is the name of the exception of its function, or a code: `unreachable` and `tool_error` of a tool, the code
    of the failure of an agent. Credentials and addresses are removed from `message`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


def written_result(name: str, result: object) -> str:
    """The answer of a step that has returned.

    Raises:
        TypeError: the result is no JSON.
    """
    try:
        return json.dumps({"result": result}, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the result of step {name!r} is no JSON: {error}") from error


def written_failure(failed: StepFailed) -> str:
    """The answer of a step that has failed."""
    return json.dumps({"error": {"type": failed.kind, "message": failed.message}})


def failure_of(error: BaseException) -> StepFailed:
    """The failure of a step whose function raised `error`."""
    if isinstance(error, StepFailed):
        return error
    try:
        text = str(error)
    except Exception as unreadable:
        log.exception("the text of an exception cannot be read")
        text = f"{type(unreadable).__name__} in its text"
    return StepFailed(type(error).__name__, redact(text))


def read_answer(answer: str, cause: BaseException | None = None) -> Any:
    """The result of a step.

    Raises:
        StepFailed: the step failed; `cause` is the exception, if it was in this attempt.
    """
    read = json.loads(answer)
    if (error := read.get("error")) is not None:
        raise StepFailed(error["type"], error["message"]) from cause
    return read["result"]


async def read_taken_over(answer: str) -> Any:
    """As `read_answer`; waits for ever if the step was cancelled: what cancelled it does so again."""
    if answer == CANCELLED:
        await asyncio.get_running_loop().create_future()
    return read_answer(answer)
