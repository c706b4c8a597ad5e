"""Routes of logging in and out."""

import logging
from typing import Self

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, SecretStr, model_validator
from starlette.responses import JSONResponse

from pallas_contracts.errors import NotFound
from pallas_runtime.http.problems import problem
from workspaces.access.sessions import LIVES, LoggedIn, Visit
from workspaces.answers import LinkView, OpenSession, OpenSessions, SessionView
from workspaces.http.admit import cookie_name
from workspaces.http.parts import Parts, Sender
from workspaces.tables import Session

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
        visit = Visit(who.address, request.headers.get("user-agent", ""), request.cookies.get(cookie_name(request)))
        if body.password is not None:
            begun = await parts.access.by_password(body.password.get_secret_value(), visit)
        else:
            token = body.once.get_secret_value() if body.once else ""
            begun = await parts.access.by_link(token, visit)
        if begun is None:
            reason = "the password is wrong" if body.password else "the link was used already, or is too old"
            return problem(401, reason, "wrong_password" if body.password else "bad_link")
        token, session = begun
        answer = JSONResponse(_view(parts, session.account, session).model_dump(mode="json"))
        _set_cookie(parts, request, answer, token)
        return answer

    @router.post("/login/links", status_code=201)
    async def make_login_link(request: Request, who: Sender) -> LinkView:
        """Make a link that logs in once, within ten minutes. Its token is behind `#`, so it reaches no log."""
        token, expires_at = await parts.access.sessions.make_link(who.account)
        log.info("login link made", extra={"account": who.account, "address": who.address})
        base = parts.settings.public_url or str(request.base_url).rstrip("/")
        return LinkView(url=f"{base}/login#once={token}", expires_at=expires_at)

    @router.get("/session")
    async def show_session(request: Request, response: Response, who: Sender) -> SessionView:
        """Show who is logged in. The cookie lives on from now."""
        session: LoggedIn | None = request.state.session
        if session is not None:
            _set_cookie(parts, request, response, request.cookies[cookie_name(request)])
        return _view(parts, who.account, session)

    @router.post("/logout", status_code=204)
    async def log_out(request: Request, response: Response, who: Sender) -> None:
        """End the session."""
        session: LoggedIn | None = request.state.session
        if session is not None:
            await parts.access.sessions.end(Session.digest == session.digest)
            log.info("logout", extra={"account": who.account, "address": who.address})
        response.delete_cookie(
            cookie_name(request), path="/", httponly=True, samesite="strict", secure=_is_secure(parts)
        )

    @router.get("/sessions")
    async def list_sessions(request: Request) -> OpenSessions:
        """List all sessions: where they were begun, and when each was used last, to the minute."""
        found = await parts.access.sessions.living()
        return OpenSessions(sessions=[_open(one, request.state.session) for one in found])

    @router.delete("/sessions", status_code=204)
    async def end_others(request: Request, who: Sender) -> None:
        """End all sessions but that of the request."""
        own: LoggedIn | None = request.state.session
        count = await parts.access.sessions.end(Session.digest != (own.digest if own else ""))
        log.info("sessions ended", extra={"account": who.account, "address": who.address, "count": count})

    @router.delete("/sessions/{session_id}", status_code=204)
    async def end_session(session_id: str, who: Sender) -> None:
        """End a session."""
        if not await parts.access.sessions.end(Session.digest == session_id):
            raise NotFound("there is no such session", code="no_session")
        log.info("session ended", extra={"account": who.account, "address": who.address})

    return router


def _view(parts: Parts, account: str, session: LoggedIn | None) -> SessionView:
    csrf = session.csrf if session else ""
    return SessionView(account=account, csrf=csrf, version=parts.version, turns=parts.broker.at_hand)


def _open(one: Session, own: LoggedIn | None) -> OpenSession:
    current = own is not None and own.digest == one.digest
    where = {"address": one.address, "browser": one.browser}
    return OpenSession(id=one.digest, begun_at=one.created_at, used_at=one.used_at, current=current, **where)


def _set_cookie(parts: Parts, request: Request, response: Response, token: str) -> None:
    age, name = int(LIVES.total_seconds()), cookie_name(request)
    response.set_cookie(name, token, max_age=age, path="/", httponly=True, samesite="strict", secure=_is_secure(parts))


def _is_secure(parts: Parts) -> bool:
    return (parts.settings.public_url or "").startswith("https:")
