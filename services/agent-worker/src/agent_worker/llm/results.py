"""Converts MCP tool results for the model. Structured content is used only when there is no other content."""

import base64
import binascii
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents
from pydantic_ai.messages import BinaryContent

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_PICTURES = {
    "image/png": b"\x89PNG",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
"""The types that models take, and how such files begin."""


def model_content(result: "CallToolResult", *, vision: bool) -> str | list[str | BinaryContent]:
    """Return the result for the model: text, and images if the model has vision."""
    images = list(_images(result)) if vision else []
    text = result_text(result)
    return [text, *images] if images else text


def _images(result: "CallToolResult") -> Iterator[BinaryContent]:
    """The images that a model takes. A provider refuses the whole conversation for any other."""
    for block in result.content:
        if isinstance(block, ImageContent):
            data = _data(block)
            # Not by what the server says: a provider refuses an image that is of another type, too.
            if (kind := next((kind for kind, begin in _PICTURES.items() if data.startswith(begin)), None)) is not None:
                yield BinaryContent(data, media_type=kind)


def _data(block: ImageContent) -> bytes:
    try:
        return base64.b64decode("".join(block.data.split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


def result_text(result: "CallToolResult") -> str:
    """Return the result as text."""
    text = "\n".join(_block_text(block) for block in result.content)
    if not text.strip() and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return text


def _block_text(block: "ContentBlock") -> str:
    match block:
        case TextContent(text=text):
            return text
        case ImageContent(mime_type=mime_type) | AudioContent(mime_type=mime_type):
            return f"[{mime_type}]"
        case EmbeddedResource(resource=TextResourceContents(text=text)):
            return text
        case EmbeddedResource(resource=resource):
            return f"[{resource.uri}]"
        case ResourceLink(uri=uri):
            return f"[{uri}]"
