"""The input of a run: the prompt, its images and the caller's history.

An invalid row of the history is skipped, so that it does not fail the whole conversation; one warning counts them. Rows
are never trimmed: a history that is too long is refused. An invalid image of the call itself is refused.
"""

import base64
import binascii
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import TurnError

log = logging.getLogger(__name__)

MOST_ROWS = 10_000
MOST_IMAGES = 1000
"""Images of the call, and of its history."""

_NAMED_ROWS = 20
"""Rows that a warning names."""

_INVALID: TurnError = "invalid_arguments"
_NO_VISION: TurnError = "vision_required"


@dataclass(frozen=True, slots=True)
class Image:
    """Decoded image data with its MIME type."""

    data: bytes
    mime_type: str


@dataclass(frozen=True, slots=True)
class Row:
    """One message of the history."""

    role: Literal["user", "assistant"]
    content: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Seed:
    """The input of one run of an agent. Immutable, so that turns cannot share state through it."""

    message: str
    images: tuple[Image, ...] = ()
    history: tuple[Row, ...] = ()


def read_seed(arguments: JsonObject, *, vision: bool) -> Seed:
    """Read the arguments of a call of an LLM agent.

    Raises:
        Rejected: `vision_required` when images are sent to a model without vision, `invalid_arguments` when the
            message is not a string, an image cannot be decoded, or there are too many images or rows.
    """
    message = arguments.get("message")
    if not isinstance(message, str):
        raise Rejected("'message' must be a string", code=_INVALID)
    sent = _listed(arguments, "images", MOST_IMAGES)
    if sent and not vision:
        raise Rejected("this agent's model cannot see images; send the message without them", code=_NO_VISION)
    rows = _listed(arguments, "history", MOST_ROWS)
    if sum(map(_count_images, rows)) > MOST_IMAGES:
        raise Rejected(f"'history' must have at most {MOST_IMAGES:,} images", code=_INVALID)
    return Seed(message, _read_call_images(sent), read_history(rows, vision=vision))


def _listed(arguments: JsonObject, name: str, most: int) -> Sequence[object]:
    items = cast("Sequence[object]", arguments.get(name) or ())
    if len(items) > most:
        raise Rejected(f"'{name}' must have at most {most:,} items", code=_INVALID)
    return items


def _count_images(row: object) -> int:
    images: object = cast("JsonObject", row).get("images") if isinstance(row, dict) else None
    return len(cast("list[object]", images)) if isinstance(images, list) else 0


def _read_call_images(sent: Sequence[object]) -> tuple[Image, ...]:
    try:
        return tuple(_read_image(image) for image in sent)
    except ValueError as error:
        raise Rejected(f"an image of 'images' {error}", code=_INVALID) from error


def read_history(rows: Sequence[object], *, vision: bool) -> tuple[Row, ...]:
    """Parse the valid rows, in order. Without vision, images are left out with a warning."""
    read: list[Row] = []
    skipped: dict[int, str] = {}
    for number, row in enumerate(rows):
        try:
            read.append(_read_row(row, vision=vision))
        except ValueError as error:
            skipped[number] = str(error)
    if skipped:
        named = {"rows": list(skipped)[:_NAMED_ROWS], "reason": next(iter(skipped.values()))}
        log.warning("history rows skipped", extra={"skipped": len(skipped), **named})
    if not vision and any(map(_count_images, rows)):
        log.warning("images of the history left out: the model has no vision")
    return tuple(read)


def _read_row(row: object, *, vision: bool) -> Row:
    if not isinstance(row, dict):
        raise ValueError("is not an object")
    fields = cast("JsonObject", row)
    role, content = fields.get("role"), fields.get("content")
    images: object = fields.get("images") or []
    if role not in ("user", "assistant"):
        raise ValueError("has no role 'user' or 'assistant'")
    if not isinstance(content, str):
        raise ValueError("has no text as content")
    if not isinstance(images, list):
        raise ValueError("has images that are not a list")
    decoded = tuple(_read_image(image) for image in cast("list[object]", images))
    return Row(role, content, decoded if vision else ())


def _read_image(image: object) -> Image:
    fields = cast("JsonObject", image) if isinstance(image, dict) else {}
    data, mime_type = fields.get("data"), fields.get("mime_type")
    if not isinstance(data, str) or not data:
        raise ValueError("has no data")
    if not isinstance(mime_type, str) or not mime_type.startswith("image/"):
        raise ValueError("has no image MIME type")
    try:
        return Image(base64.b64decode(data, validate=True), mime_type)
    except binascii.Error as error:
        raise ValueError("is not valid base64") from error


def encoded(image: Image) -> str:
    """The data of an image as base64."""
    return base64.b64encode(image.data).decode()
