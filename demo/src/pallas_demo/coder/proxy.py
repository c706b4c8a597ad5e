"""The way to the apps of workspaces: `/@owner/workspace.agent/apps/slug/…`, or a host name below the wildcard."""

import re
import secrets
from urllib.parse import quote

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from pallas_demo.coder.workspaces import Workspaces
from pallas_demo.coder.world import APP, USER_NAME

_PATH = re.compile(r"/@(?P<owner>[^/]+)/(?P<workspace>[^/.]+)(\.(?P<agent>[^/]+))?/apps/(?P<slug>[^/]+)(?P<rest>/.*)?")
_HOST = re.compile(r"(?P<slug>[a-z0-9-]+?)--(?P<agent>[^.]+?)--(?P<workspace>[^.]+?)--(?P<owner>[^.]+?)(?P<zone>\..+)")


class Proxy:
    """Hands requests for apps to the programs, and all others on."""

    def __init__(self, app: ASGIApp, workspaces: Workspaces) -> None:
        self._app, self._all = app, workspaces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        found = self._found(scope) if scope["type"] == "http" else None
        if found is None:
            return await self._app(scope, receive, send)
        if not signed_in(HTTPConnection(scope), self._all.settings.token):
            answer = RedirectResponse(f"/login?redirect={quote(scope['path'])}", 303)
            return await answer(scope, receive, send)
        if found["rest"] is None:
            return await RedirectResponse(f"{scope['path']}/", 307)(scope, receive, send)
        name = found["workspace"] or ""
        workspace = self._all.world.named(name) or self._all.world.workspaces.get(name)
        if workspace is None or found["owner"] not in ("me", USER_NAME) or found["slug"] != APP:
            return await _page(404, "Application Not Found")(scope, receive, send)
        if found["agent"] not in (None, "main", workspace.agent, workspace.id):  # some clients name the workspace twice
            return await _page(404, "Application Not Found")(scope, receive, send)
        running = self._all.running.get(workspace.id)
        if workspace.state != "running" or running is None or running.terminal.exit_code is not None:
            return await _page(502, "Bad Gateway")(scope, receive, send)
        path = found["rest"]
        return await running.api({**scope, "path": path, "raw_path": path.encode(), "root_path": ""}, receive, send)

    def _found(self, scope: Scope) -> dict[str, str | None] | None:
        zone = self._all.settings.wildcard.removeprefix("*")
        host = _HOST.fullmatch(dict(scope["headers"]).get(b"host", b"").decode("latin-1"))
        if zone and host and host["zone"] == zone:
            return host.groupdict() | {"rest": scope["path"]}
        path = _PATH.fullmatch(scope["path"])
        return path.groupdict() if path else None


def signed_in(request: HTTPConnection, token: str) -> bool:
    """Whether a request has the session token, in a header, a cookie, or the query."""
    name = "coder_session_token"
    given = request.headers.get("coder-session-token") or request.cookies.get(name) or request.query_params.get(name)
    return given is not None and secrets.compare_digest(given.encode(), token.encode())


def _page(status: int, title: str) -> HTMLResponse:
    return HTMLResponse(f"<!DOCTYPE html><html><head><title>{status} - {title}</title></head></html>", status)
