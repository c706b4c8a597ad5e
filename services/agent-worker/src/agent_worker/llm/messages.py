"""Converts a seed to pydantic-ai messages."""

from collections.abc import Sequence

from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserContent,
    UserPromptPart,
)

from pallas_executor.teams.seed import Image, Row, Seed


def seed_prompt(seed: Seed) -> str | list[UserContent]:
    """The new message, with the images of this call."""
    return _content(seed.message, seed.images)


def seed_history(rows: Sequence[Row]) -> list[ModelMessage]:
    """The history, one message for each row."""
    return [_message(row) for row in rows]


def _message(row: Row) -> ModelMessage:
    if row.role == "user":
        return ModelRequest([UserPromptPart(_content(row.content, row.images))])
    files = [FilePart(_binary(image)) for image in row.images]
    return ModelResponse([TextPart(row.content), *files])


def _content(text: str, images: Sequence[Image]) -> str | list[UserContent]:
    return [text, *(_binary(image) for image in images)] if images else text


def _binary(image: Image) -> BinaryContent:
    return BinaryContent(image.data, media_type=image.mime_type)
