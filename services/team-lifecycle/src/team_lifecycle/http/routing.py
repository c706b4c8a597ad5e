"""The routes, and the account that each router is for."""

import logging
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBasic
from sqlalchemy import select
from starlette.requests import HTTPConnection

from pallas_contracts.errors import NotFound
from pallas_credentials.accounts import Accounts
from pallas_postgres.engine import reading
from pallas_runtime.front import Front
from team_lifecycle.handlers.keys import public_jwk
from team_lifecycle.http.libraries import libraries_router, memberships_router
from team_lifecycle.http.senders import REFUSALS, Parts, admit, handle_errors, require_admin
from team_lifecycle.http.teams import keys_router, lists_router, teams_router
from team_lifecycle.http.users import tokens_router, users_router
from team_lifecycle.tables import SigningKey

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = "daedalus-service"
ADMIN_ACCOUNT = "admin"
TEAMS = "/mcp_server/api/teams"
ADMIN = "/admin/api"


class RequireAccount(HTTPBasic):
    """Restricts a router to one account. `admit` has checked the password."""

    def __init__(self, account: str) -> None:
        super().__init__(scheme_name="HTTPBasic")
        self._account = account

    async def __call__(self, request: HTTPConnection) -> None:
        """Check the account.

        Raises:
            HTTPException: 401, the request is from another account or from none.
        """
        if request.state.who.account != self._account:
            log.warning(
                "refused a request without the name and password of the account", extra={"account": self._account}
            )
            raise HTTPException(401)


def make_http(parts: Parts, *, service_hash: str | None, admin_hash: str | None) -> Front:
    """The ASGI application."""
    accounts = Accounts({SERVICE_ACCOUNT: service_hash, ADMIN_ACCOUNT: admin_hash})
    return Front(make_app(parts), partial(admit, accounts))


def make_app(parts: Parts) -> FastAPI:
    """The routes. The state of a request must have `who`."""
    app = FastAPI(
        title="Pallas team lifecycle",
        version="0.1",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False},
    )
    app.include_router(teams_router(parts), prefix=TEAMS, dependencies=[Depends(RequireAccount(SERVICE_ACCOUNT))])
    app.include_router(_admin_router(parts), prefix=ADMIN, dependencies=[Depends(RequireAccount(ADMIN_ACCOUNT))])
    app.include_router(_public_router(parts))
    handle_errors(app)
    return app


def _admin_router(parts: Parts) -> APIRouter:
    router = APIRouter()
    for routes in (lists_router, users_router, libraries_router, memberships_router, tokens_router, keys_router):
        router.include_router(routes(parts))
    # Daedalus uses the same routes. Here a request may act for a user, who must not manage teams.
    router.include_router(teams_router(parts), prefix="/teams", dependencies=[Depends(require_admin)])
    return router


def _public_router(parts: Parts) -> APIRouter:
    router = APIRouter(tags=["public"], responses={503: REFUSALS[503], 404: REFUSALS[404]})

    @router.get("/.well-known/jwks.json", response_model=None)
    async def show_public_keys() -> Response:
        """The public keys of team JWTs signed with EdDSA. 404 if they are signed with HS256, whose keys are secret."""
        if parts.algorithm != "EdDSA":
            raise NotFound("there are no public keys: team JWTs are signed with HS256", code="no_public_keys")
        valid = SigningKey.purpose == "team", SigningKey.retired_at.is_(None), SigningKey.public.is_not(None)
        async with reading(parts.engine) as session:
            found = (await session.scalars(select(SigningKey).where(*valid).order_by(SigningKey.created_at))).all()
        keys: list[dict[str, Any]] = [public_jwk(key.kid, key.public) for key in found if key.public]
        return JSONResponse({"keys": keys}, headers={"cache-control": "public, max-age=300"})

    return router
