"""Routes of logging in and out."""

import logging
from typing import Self

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, SecretStr, model_validator
from starlette.responses import JSONResponse

from pallas_runtime.http.problems import problem
from workspaces.access.sessions import LIVES, LoggedIn, make_link
from workspaces.answers import LinkView, SessionView
from workspaces.http.admit import COOKIE
from workspaces.http.parts import Parts, Sender

log = logging.getLogger(__name__)


class Credentials(BaseModel):
    """The password, or the token of a link."""

    password: SecretStr | None = Field(None, min_length=1, max_length=1024)
    once: SecretStr | None = Field(None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def one(self) -> Self:
        """Exactly one of them."""
        if (self.password is None) == (self.once is None):
            raise ValueError("either password or once is required")
        return self


def login_router(parts: Parts) -> APIRouter:
    """The routes. `POST /login` needs no session."""
    router = APIRouter(tags=["login"])

    @router.post("/login", response_model=SessionView)
    async def log_in(body: Credentials, request: Request, who: Sender) -> Response:
        """Log in by the password, or by a link, which works once."""
        old = request.cookies.get(COOKIE)
        if body.password is not None:
            begun = await parts.access.by_password(body.password.get_secret_value(), who.address, old)
        else:
            token = body.once.get_secret_value() if body.once else ""
            begun = await parts.access.by_link(token, who.address, old)
        if begun is None:
            reason = "the password is wrong" if body.password else "the link was used already, or is too old"
            return problem(401, reason, "wrong_password" if body.password else "bad_link")
        token, session = begun
        answer = JSONResponse(_view(parts, session.account, session).model_dump(mode="json"))
        _set_cookie(parts, answer, token)
        return answer

    @router.post("/login/links", status_code=201)
    async def make_login_link(request: Request, who: Sender) -> LinkView:
        """Make a link that logs in once, within ten minutes. Its token is behind `#`, so it reaches no log."""
        token, expires_at = await make_link(parts.engine, who.account)
        log.info("login link made", extra={"account": who.account, "address": who.address})
        base = parts.settings.public_url or str(request.base_url).rstrip("/")
        return LinkView(url=f"{base}/login#once={token}", expires_at=expires_at)

    @router.get("/session")
    async def show_session(request: Request, response: Response, who: Sender) -> SessionView:
        """Show who is logged in. The cookie lives on from now."""
        session: LoggedIn | None = request.state.session
        if session is not None:
            _set_cookie(parts, response, request.cookies[COOKIE])
        return _view(parts, who.account, session)

    @router.post("/logout", status_code=204)
    async def log_out(request: Request, response: Response, who: Sender) -> None:
        """End the session."""
        session: LoggedIn | None = request.state.session
        if session is not None:
            await parts.access.sessions.end(session.digest)
            log.info("logout", extra={"account": who.account, "address": who.address})
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=_is_secure(parts))

    return router


def _view(parts: Parts, account: str, session: LoggedIn | None) -> SessionView:
    csrf = session.csrf if session else ""
    return SessionView(account=account, csrf=csrf, version=parts.version, turns=parts.broker.at_hand)


def _set_cookie(parts: Parts, response: Response, token: str) -> None:
    age = int(LIVES.total_seconds())
    response.set_cookie(
        COOKIE, token, max_age=age, path="/", httponly=True, samesite="strict", secure=_is_secure(parts)
    )


def _is_secure(parts: Parts) -> bool:
    return (parts.settings.public_url or "").startswith("https:")
