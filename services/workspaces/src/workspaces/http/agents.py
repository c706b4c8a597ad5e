"""Routes of agents: `/agents/status` and `/icons/{name}`.

Browsers get icons from here only, so no other host learns who looks at them.
"""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from workspaces.answers import AgentStatuses
from workspaces.http.parts import Parts

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""An SVG may be a page with scripts. None of them runs, and it loads nothing."""


def agents_router(parts: Parts) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["agents"])
    health, icons = parts.agents.health, parts.agents.icons

    @router.get("/agents/status")
    async def show_status() -> AgentStatuses:
        """The cached health of all agents of registered instances (interface contract, section 4)."""
        return AgentStatuses(agents=tuple(health.statuses()), interval=health.interval)

    @router.get("/icons/{name}", response_class=Response, responses={200: {"content": {"image/*": {}}}})
    async def show_icon(name: Annotated[str, Path(pattern="^[0-9a-f]{32}$")]) -> Response:
        """The icon of a registered agent. Its name is a hash of its address."""
        icon = await icons.get(name)
        headers = {"cache-control": "private, max-age=86400", "content-security-policy": _POLICY}
        return Response(icon.content, media_type=icon.media_type, headers=headers)

    return router
