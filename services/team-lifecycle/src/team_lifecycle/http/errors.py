"""The refusals of the routes. A sender without an account gets 401 in place of any other error of the routing."""

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from pallas_runtime.api_errors import add_error_handlers, http_error, refusals
from pallas_runtime.http.problems import problem
from team_lifecycle.model import STRANGER

REFUSALS = refusals(
    {
        400: "The body is not complete",
        401: "Name and password are missing or wrong",
        403: "The acting user may not do this",
        404: "Not found",
        408: "The body did not arrive in time",
        409: "The request conflicts with the current state",
        413: "The body is too large",
        422: "Bad input; `field` names the field",
        503: "Postgres or the cache cannot be used; `Retry-After` says when to try again",
    }
)
"""The refusals that routes document."""


def handle_errors(app: FastAPI) -> None:
    """Register the handlers of all errors."""
    add_error_handlers(app)
    app.add_exception_handler(HTTPException, _http_error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    # Without an account nobody learns which routes exist.
    if error.status_code == 401 or request.state.who.account == STRANGER:
        return _unauthorized()
    return await http_error(request, error)


def _unauthorized() -> Response:
    answer = problem(401, "the name and password of an account for this route are required", "unauthorized")
    answer.headers["www-authenticate"] = 'Basic realm="pallas", charset="UTF-8"'
    return answer
