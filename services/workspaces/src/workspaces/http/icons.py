"""Routes of icons: `/icons/{name}`. Browsers get icons from here only, so no other host learns who looks at them."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from workspaces.http.parts import Parts

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""An SVG may be a page with scripts. None of them runs, and it loads nothing."""


def icons_router(parts: Parts) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/icons", tags=["agents"])

    @router.get("/{name}", response_class=Response, responses={200: {"content": {"image/*": {}}}})
    async def show_icon(name: Annotated[str, Path(pattern="^[0-9a-f]{32}$")], request: Request) -> Response:
        """The icon of a registered agent. Its name is a hash of its address."""
        icon = await parts.agents.icons.get(name)
        headers = {"cache-control": "private, max-age=86400", "content-security-policy": _POLICY}
        return Response(icon.content, media_type=icon.media_type, headers=headers)

    return router
