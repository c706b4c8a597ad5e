"""Converts MCP tool results for the model. Structured content is used only when there is no other content."""

import base64
import binascii
import json
from typing import TYPE_CHECKING

from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents
from pydantic_ai.messages import BinaryContent

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock


def model_content(result: "CallToolResult", *, vision: bool) -> str | list[str | BinaryContent]:
    """Return the result for the model: text, and images if the model has vision.

    Raises:
        ValueError: an image is not valid base64.
    """
    images = [_image(block) for block in result.content if vision and isinstance(block, ImageContent)]
    text = result_text(result)
    return [text, *images] if images else text


def _image(block: ImageContent) -> BinaryContent:
    try:
        return BinaryContent(base64.b64decode(block.data), media_type=block.mime_type)
    except binascii.Error as error:
        raise ValueError("the tool returned an image that is not valid base64") from error


def result_text(result: "CallToolResult") -> str:
    """Return the result as text."""
    if not result.content and result.structured_content is not None:
        return json.dumps(result.structured_content)
    return "\n".join(_block_text(block) for block in result.content)


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
