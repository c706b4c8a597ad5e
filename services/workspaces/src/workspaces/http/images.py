"""The route of images."""

from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from workspaces.chat.images import read_image
from workspaces.http.parts import Parts

FOR_EVER = "private, max-age=31536000, immutable"


def images_router(parts: Parts) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["messages"])

    @router.get("/images/{image_id}", response_class=Response)
    async def show(image_id: UUID) -> Response:
        """An image of a message. It never changes."""
        picture = await read_image(parts.engine, str(image_id))
        headers = {"cache-control": FOR_EVER, "x-content-type-options": "nosniff"}
        return Response(picture.data, media_type=picture.mime_type, headers=headers)

    return router
