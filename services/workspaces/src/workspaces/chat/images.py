"""Images that are sent with a message. Their first bytes decide about their type, whatever the sender says."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import NotFound, Rejected
from pallas_postgres.engine import reading
from workspaces.agents.images import image_type
from workspaces.tables import Image

MEBIBYTE = 1024 * 1024
LARGEST_IMAGE = 5 * MEBIBYTE
MOST_IMAGES = 8
_SENT = ("image/png", "image/jpeg", "image/gif", "image/webp")
LARGEST_TOGETHER = 8 * MEBIBYTE
"""All images of a message, so that they fit into one call as base64."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image with its type."""

    mime_type: str
    data: bytes = field(repr=False)


def pictures_of(encoded: Sequence[str]) -> tuple[Picture, ...]:
    """Decode and check the images of a message.

    Raises:
        Rejected: there are too many, or one cannot be used; `field` names it.
    """
    if len(encoded) > MOST_IMAGES:
        raise _bad("images", f"at most {MOST_IMAGES} images can be sent with a message")
    pictures = tuple(_picture_of(f"images.{number}.data", one) for number, one in enumerate(encoded))
    if sum(len(picture.data) for picture in pictures) > LARGEST_TOGETHER:
        raise _bad("images", f"the images of a message may have {LARGEST_TOGETHER // MEBIBYTE} MiB together")
    return pictures


def pictures_in(images: Sequence[tuple[str, str]], text: str) -> tuple[tuple[Picture, ...], str]:
    """The images of an answer that can be shown, and its text without the notes that stand for them."""
    pictures, left = list[Picture](), LARGEST_TOGETHER
    for note, encoded in images:
        try:
            picture = _picture_of("images", encoded)
        except Rejected:
            continue
        if len(pictures) < MOST_IMAGES and len(picture.data) <= left:
            pictures.append(picture)
            left -= len(picture.data)
            text = text.replace(note, "", 1)
    return tuple(pictures), text.strip() if pictures else text


def type_of(data: bytes) -> str | None:
    """The type of an image by its first bytes: PNG, JPEG, GIF or WebP; None if it is none of them."""
    kind = image_type(data)
    return kind if kind in _SENT else None


async def read_image(engine: AsyncEngine, image_id: str) -> Picture:
    """A stored image.

    Raises:
        NotFound: there is none with this id.
    """
    async with reading(engine) as session:
        row = (await session.execute(select(Image.mime_type, Image.data).where(Image.id == image_id))).one_or_none()
    if row is None:
        raise NotFound("there is no such image", code="unknown_image")
    return Picture(row.mime_type, row.data)


def _picture_of(where: str, encoded: str) -> Picture:
    if len(encoded) > LARGEST_IMAGE * 4 // 3 + 4:
        raise _bad(where, f"an image may have {LARGEST_IMAGE // MEBIBYTE} MiB")
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad(where, "must be base64") from error
    if len(data) > LARGEST_IMAGE:
        raise _bad(where, f"an image may have {LARGEST_IMAGE // MEBIBYTE} MiB")
    mime_type = type_of(data)
    if mime_type is None:
        raise _bad(where, "must be a PNG, JPEG, GIF or WebP image")
    return Picture(mime_type, data)


def _bad(where: str, reason: str) -> Rejected:
    return Rejected(f"{where}: {reason}", field=where)
