"""What the model gets of a tool's result."""

import base64

import pytest
from mcp_types import CallToolResult, ImageContent, TextContent
from pydantic_ai.messages import BinaryContent

from agent_worker.llm.results import model_content, result_text

PNG, JPEG = b"\x89PNG\r\n\x1a\n more", b"\xff\xd8\xff more"


def picture(data: bytes | str, mime_type: str = "image/png") -> CallToolResult:
    text = data if isinstance(data, str) else base64.b64encode(data).decode()
    return CallToolResult(content=[ImageContent(type="image", data=text, mime_type=mime_type)])


@pytest.mark.parametrize("mime_type", ["image/png", "image/jpeg", "application/octet-stream"])
def test_an_image_has_the_type_that_it_is_of(mime_type: str) -> None:
    content = model_content(picture(JPEG, mime_type), vision=True)
    assert content == [f"[{mime_type}]", BinaryContent(JPEG, media_type="image/jpeg")]


def test_base64_may_have_line_breaks() -> None:
    content = model_content(picture("\n".join(base64.b64encode(PNG).decode())), vision=True)
    assert content == ["[image/png]", BinaryContent(PNG, media_type="image/png")]


@pytest.mark.parametrize("data", ["!!!", "", "AAA", base64.b64encode(b"<html>").decode()])
def test_what_is_no_image_is_a_text(data: str) -> None:
    assert model_content(picture(data), vision=True) == "[image/png]"


@pytest.mark.parametrize("blank", [[], [TextContent(type="text", text=" \n")]])
def test_structured_content_stands_for_blank_text(blank: list[TextContent]) -> None:
    result = CallToolResult(content=[*blank], structured_content={"a": "ü"})
    assert result_text(result) == '{"a": "ü"}'
