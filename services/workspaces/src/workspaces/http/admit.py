"""Admits requests of the API: by a session's cookie with its CSRF token, or by HTTP Basic for the command line.

A browser is never asked for HTTP Basic, so it never sends it by itself. A cookie is sent by itself, and to each port of
the host, so alone it is worth nothing but pictures, whose addresses are random. The page that has logged in keeps the
token in the storage of its origin. Unsafe methods must not come from another site, either.
"""

import hmac
import logging
import re
from dataclasses import replace
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Scope

from pallas_credentials.accounts import basic_of
from pallas_runtime.front import Admitted, Limit
from pallas_runtime.http.problems import problem
from pallas_runtime.http.senders import name_caller
from workspaces.access.login import Logins
from workspaces.access.sessions import LoggedIn
from workspaces.http.parts import API, LOGIN, SESSION
from workspaces.model import Who
from workspaces.settings import WorkspacesSettings

log = logging.getLogger(__name__)

_COOKIE = "pallas_session"
CSRF = "x-csrf-token"
NOBODY = "-"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
MEBIBYTE = 1024 * 1024
_PICTURES = re.compile(re.escape(API) + r"/(images|icons)/[^/]+")
_WITH_IMAGES = re.compile(re.escape(API) + r"/conversations/[^/]+/messages")
_IMAGES = Limit(17 * MEBIBYTE, 3600.0)
"""Over a slow link they take long. The listener refuses those that stop."""
_LOGIN = Limit(4096)


class Admission:
    """Decides about requests. It sets `who`, and `session` (None without a cookie), in the state of each."""

    def __init__(self, access: Logins, settings: WorkspacesSettings) -> None:
        self._access = access
        self._settings = settings

    async def admit(self, scope: Scope, correlation: str) -> Admitted | Response:
        """Admit or refuse one request."""
        name_caller(scope, self._settings.trusted_proxies)
        request = HTTPConnection(scope)
        nobody = Who(NOBODY, correlation, request.client.host if request.client else "")
        path = scope["path"]
        if not (path == "/api" or path.startswith("/api/")):
            return Admitted({"who": nobody, "session": None}, None)
        if path == LOGIN:
            return self._refuse_other_sites(request, nobody) or Admitted({"who": nobody, "session": None}, _LOGIN)
        if "authorization" in request.headers:
            return await self._by_basic(request, nobody)
        return await self._by_cookie(request, nobody)

    async def _by_basic(self, request: HTTPConnection, nobody: Who) -> Admitted | Response:
        given = basic_of(request.headers["authorization"])
        if given is None or not await self._access.by_basic(*given, nobody.address):
            return unauthorized()
        return Admitted({"who": replace(nobody, account=given[0]), "session": None}, limit_of(request.scope))

    async def _by_cookie(self, request: HTTPConnection, nobody: Who) -> Admitted | Response:
        session = await self._access.sessions.find(request.cookies.get(cookie_name(request), ""))
        if session is None:
            return unauthorized()
        if refused := self._refuse_other_sites(request, nobody):
            return refused
        if hmac.compare_digest(request.headers.get(CSRF, "").encode(), session.csrf.encode()):
            await self._access.sessions.used(session)
        elif not _needs_no_token(request.scope, session):
            log.warning("refused a request without the CSRF token", extra={"address": nobody.address})
            if request.scope["method"] in SAFE:
                return unauthorized()
            return problem(403, "the CSRF token is missing or wrong: load the page again", "bad_csrf")
        return Admitted({"who": replace(nobody, account=session.account), "session": session}, limit_of(request.scope))

    def _refuse_other_sites(self, request: HTTPConnection, nobody: Who) -> Response | None:
        if request.scope["method"] in SAFE or not is_cross_site(request.headers, self._settings.public_url):
            return None
        log.warning("refused a request from a page of another site", extra={"address": nobody.address})
        return problem(403, "the request comes from a page of another site", "cross_site")


def _needs_no_token(scope: Scope, session: LoggedIn) -> bool:
    """Whether the cookie is enough: for pictures, and for a page that is loaded right after the login."""
    path = scope["path"]
    told = path == SESSION and session.is_new
    return scope["method"] in SAFE and (told or _PICTURES.fullmatch(path) is not None)


def cookie_name(request: HTTPConnection) -> str:
    """The name of the cookie. Consoles at several ports of a host have one each."""
    _, _, port = request.headers.get("host", "").rpartition(":")
    return f"{_COOKIE}_{port}" if port.isascii() and port.isdigit() else _COOKIE


def limit_of(scope: Scope) -> Limit:
    """The limit of the body of a request."""
    return _IMAGES if _WITH_IMAGES.fullmatch(scope["path"]) else Limit()


def unauthorized() -> Response:
    """401, without a challenge: a browser would ask for a password by itself."""
    return problem(401, "log in first", "unauthorized")


def is_cross_site(headers: Headers, public_url: str | None) -> bool:
    """Whether the request comes from a page of another origin. Programs that are no browsers say nothing of this."""
    if (site := headers.get("sec-fetch-site")) is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return False
    own = {headers.get("host", ""), urlsplit(public_url).netloc if public_url else ""}
    return urlsplit(origin).netloc not in own - {""}
