"""Errors as HTTP answers: `{"error": sentence, "code": word}`. Bad input also has `field`, and all `faults`.

Answers repeat nothing of the request but names and ids.
"""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from pallas_contracts.errors import PallasError, find_error
from pallas_runtime.http.problems import problem, problem_of
from team_lifecycle.model import STRANGER

RETRY_AFTER_SECONDS = 2
LONGEST_FIELD = 100


class Fault(BaseModel):
    """One thing that is wrong with a request."""

    field: str
    reason: str


class Problem(BaseModel):
    """Why a request was refused. Bad input has `field` and `faults`."""

    error: str
    code: str
    field: str | None = None
    faults: list[Fault] | None = None


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": meaning}
    for status, meaning in {
        400: "The body is not complete",
        401: "Name and password are missing or wrong",
        403: "The acting user may not do this",
        404: "Not found",
        408: "The body did not arrive in time",
        409: "The request conflicts with the current state",
        413: "The body is too large",
        422: "Bad input; `field` names the field",
        503: "Postgres or the cache cannot be used; `Retry-After` says when to try again",
    }.items()
}
"""The refusals that routes document."""


def add_error_handlers(app: FastAPI) -> None:
    """Register the handlers of all errors."""
    app.add_exception_handler(PallasError, _any_error)
    app.add_exception_handler(RequestValidationError, _bad_input)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _any_error)


async def _any_error(_request: Request, error: Exception) -> Response:
    known = find_error(error)
    if known is None:
        return problem(500, "internal error", "internal")
    return problem_of(known, retry_after=RETRY_AFTER_SECONDS)


async def _bad_input(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [
        {"field": _field(fault["loc"]), "reason": str(fault["msg"]).removeprefix("Value error, ")}
        for fault in error.errors()
    ]
    first = faults[0]
    return problem(422, f"{first['field']}: {first['reason']}", "invalid", field=first["field"], faults=faults)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    # Without an account nobody learns which routes exist.
    if error.status_code == 401 or request.state.who.account == STRANGER:
        return _unauthorized()
    answer = problem(error.status_code, error.detail, "http")
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


def _unauthorized() -> Response:
    answer = problem(401, "the name and password of an account for this route are required", "unauthorized")
    answer.headers["www-authenticate"] = 'Basic realm="pallas", charset="UTF-8"'
    return answer


def _field(loc: Sequence[str | int]) -> str:
    """`("body", "workspace_ids", 3)` is `workspace_ids.3`; invalid JSON is `body`."""
    named = ".".join(str(part) for part in loc[1:])
    readable = named.encode(errors="replace").decode()[:LONGEST_FIELD]
    return readable if readable and not readable.isdigit() else str(loc[0])
