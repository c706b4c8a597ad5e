"""Errors of a FastAPI application as HTTP answers: `{"error": sentence, "code": word}`. Bad input also has `field`, and
all `faults`.

Answers repeat nothing of the request but names and ids. Services that use this depend on `pallas-runtime[api]`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from pallas_contracts.errors import PallasError, find_error
from pallas_runtime.front import RETRY_AFTER_SECONDS
from pallas_runtime.http.problems import problem, problem_of

LONGEST_FIELD = 100
_SUBJECT = re.compile(r"^\w+ should ")
"""The beginning of a message of pydantic, such as `Input should be a valid list`."""
_SAID = {"missing": "is missing", "extra_forbidden": "is not a known field", "json_invalid": "is not JSON"}


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


def refusals(meanings: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """The refusals that routes document, by status."""
    return {status: {"model": Problem, "description": meaning} for status, meaning in meanings.items()}


def add_error_handlers(app: FastAPI) -> None:
    """Register the handlers of all errors."""
    app.add_exception_handler(PallasError, _any_error)
    app.add_exception_handler(RequestValidationError, _bad_input)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, _any_error)


async def http_error(_request: Request, error: Exception) -> Response:
    """An error of the routing, such as 404 and 405."""
    assert isinstance(error, HTTPException)
    answer = problem(error.status_code, error.detail, "http")
    answer.headers.update(error.headers or {})
    return answer


async def _any_error(_request: Request, error: Exception) -> Response:
    known = find_error(error)
    if known is None:
        return problem(500, "internal error", "internal")
    return problem_of(known, retry_after=RETRY_AFTER_SECONDS)


async def _bad_input(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [{"field": _field(fault["loc"]), "reason": _reason(fault)} for fault in error.errors()]
    first = faults[0]
    return problem(422, f"{first['field']}: {first['reason']}", "invalid", field=first["field"], faults=faults)


def _reason(fault: Mapping[str, Any]) -> str:
    """What is wrong, as the end of a sentence that the field begins: `must be greater than or equal to 1`."""
    said = _SAID.get(fault["type"]) or str(fault["msg"]).removeprefix("Value error, ")
    return _SUBJECT.sub("must ", said)


def _field(loc: Sequence[str | int]) -> str:
    """`("body", "workspace_ids", 3)` is `workspace_ids.3`; invalid JSON is `body`."""
    named = ".".join(str(part) for part in loc[1:])
    readable = named.encode(errors="replace").decode()[:LONGEST_FIELD]
    return readable if readable and not readable.isdigit() else str(loc[0])
