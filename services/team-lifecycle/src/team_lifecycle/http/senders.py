"""Who sends a request, as a dependency of routes that `admit` has identified, and how it is refused."""

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, FastAPI, Header, Request
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from pallas_contracts.errors import Rejected
from pallas_credentials.accounts import Accounts
from pallas_runtime.api_errors import add_error_handlers, http_error, refusals
from pallas_runtime.front import Admitted, Limit
from pallas_runtime.http.problems import problem
from team_lifecycle.changes.make_changes import Changes
from team_lifecycle.handlers.keys import Algorithm, Seal
from team_lifecycle.handlers.users import check_admin
from team_lifecycle.http.fields import LONGEST_ID, PLAIN
from team_lifecycle.model import STRANGER, Who


def sender_of(request: Request) -> Who:
    """The sender of the request."""
    who: Who = request.state.who
    return who


def acting_of(
    request: Request,
    acts_for: Annotated[
        str | None, Header(alias="X-Pallas-User", description="act for this user, with the rights of the user")
    ] = None,
) -> Who:
    """The sender, who may act for a user.

    Raises:
        Rejected: the header is not a valid user name.
    """
    who: Who = request.state.who
    if acts_for is None:
        return who
    if len(acts_for) > LONGEST_ID or not re.fullmatch(PLAIN, acts_for):
        raise Rejected("X-Pallas-User: must be a valid user name", field="X-Pallas-User")
    return Who(who.account, who.correlation, acts_for)


def require_admin(who: Annotated[Who, Depends(acting_of)]) -> None:
    """Refuse requests that act for a user.

    Raises:
        Denied: the request acts for a user.
    """
    check_admin(who)


type Sender = Annotated[Who, Depends(sender_of)]
type Acting = Annotated[Who, Depends(acting_of)]
"""The sender, or the user for whom it acts."""


async def admit(accounts: Accounts, scope: Scope, correlation: str) -> Admitted:
    """Set `who` in the state of the request.

    Raises:
        Unavailable: too many passwords are being checked.
    """
    address, _ = scope.get("client") or ("", 0)
    account = await accounts.who(Headers(scope=scope).get("authorization"), address)
    return Admitted({"who": Who(account or STRANGER, correlation)}, Limit() if account is not None else None)


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


@dataclass(frozen=True, slots=True)
class Parts:
    """Postgres for reading, `changes` for writing, and the encryption and algorithm of signing keys."""

    engine: AsyncEngine
    changes: Changes
    seal: Seal
    algorithm: Algorithm
