"""Errors as HTTP answers: `{"error": sentence, "code": word}`. Bad input also has `field`, and all `faults`.

Answers repeat nothing of the request but names and ids.
"""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from pallas_contracts.errors import PallasError, find_error
from team_lifecycle.model import STRANGER

STATUS = {"rejected": 422, "not_found": 404, "denied": 403, "conflict": 409, "unavailable": 503, "internal": 500}
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


def problem(status: int, sentence: str, code: str, **facts: Any) -> JSONResponse:
    """An error answer."""
    return JSONResponse({"error": sentence, "code": code, **facts}, status_code=status)


def unavailable(error: PallasError) -> Response:
    """A 503 with `Retry-After`."""
    answer = problem(503, error.message, error.code)
    answer.headers["retry-after"] = str(RETRY_AFTER_SECONDS)
    return answer


def add_error_handlers(app: FastAPI) -> None:
    """Register the handlers of all errors."""
    app.add_exception_handler(PallasError, _any_error)
    app.add_exception_handler(RequestValidationError, _bad_input)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _any_error)


def status_of(error: BaseException) -> int:
    """The HTTP status of an error, or of the `PallasError` that caused it."""
    known = find_error(error)
    return STATUS[known.kind if known is not None else "internal"]


async def _any_error(_request: Request, error: Exception) -> Response:
    known = find_error(error)
    if known is None:
        return problem(500, "internal error", "internal")
    if known.kind == "unavailable":
        return unavailable(known)
    field = known.facts.get("field")
    return problem(status_of(known), known.message, known.code, **({"field": field} if field else {}))


async def _bad_input(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [{"field": _field(fault["loc"]), "reason": str(fault["msg"])} for fault in error.errors()]
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
