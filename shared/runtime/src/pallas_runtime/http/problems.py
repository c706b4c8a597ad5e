"""Errors as HTTP answers: `{"error": sentence, "code": word}`, and more facts where there are some.

Answers repeat nothing of the request but names and ids.
"""

import json
import math
from collections.abc import Mapping

from starlette.responses import Response

from pallas_contracts.errors import PallasError

STATUS: Mapping[str, int] = {
    "rejected": 422,
    "not_found": 404,
    "denied": 403,
    "conflict": 409,
    "unavailable": 503,
    "bad_gateway": 502,
    "internal": 500,
}
"""The HTTP status of each kind of error."""


def problem(status: int, sentence: str, code: str, **facts: object) -> Response:
    """An error answer."""
    return Response(json.dumps({"error": sentence, "code": code, **facts}), status, media_type="application/json")


def problem_of(error: PallasError, *, retry_after: int) -> Response:
    """A `PallasError` as an answer, with its `field`. A 503 asks to try again in `retry_after` seconds.

    The facts `status` and `retry_after` of an error count more than its kind and the argument.
    """
    facts = {"field": error.facts["field"]} if error.facts.get("field") else {}
    status, after = error.facts.get("status"), error.facts.get("retry_after")
    answer = problem(status if isinstance(status, int) else STATUS[error.kind], error.message, error.code, **facts)
    if isinstance(after, int | float):
        answer.headers["retry-after"] = str(max(1, math.ceil(after)))
    elif error.kind == "unavailable":
        answer.headers["retry-after"] = str(retry_after)
    return answer
