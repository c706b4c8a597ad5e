"""What becomes of the content of a result."""

import json
from typing import Any

import pytest
from mcp_types import CallToolResult

from pallas_mcp_calls.answers import answer_of

PICTURE = {"type": "image", "data": "A" * 40_000, "mimeType": "image/png"}
TEXT_FILE = {"type": "resource", "resource": {"uri": "file:///notes.txt", "text": "What was noted."}}
DATA_FILE = {"type": "resource", "resource": {"uri": "file:///notes.bin", "blob": "AAAA"}}


def link(uri: str, name: str = "report.pdf") -> dict[str, Any]:
    """A link to a resource."""
    return {"type": "resource_link", "uri": uri, "name": name}


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (PICTURE, "[image/png, 31 kB: not shown]"),
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/\nwav"}, "[audio/ wav, 1 kB: not shown]"),
        (TEXT_FILE, "What was noted."),
        (DATA_FILE, "[data, 1 kB: not shown]"),
        (link("https://example.org/a(b).pdf"), "[report.pdf](<https://example.org/a(b).pdf>)"),
        (link("https://example.org/", "a](b)\n\nc"), "[a\\](b) c](<https://example.org/>)"),
        (link("https://example.org/> and more"), "report.pdf (https://example.org/> and more)"),
        (link("javascript:alert(1)"), "report.pdf (javascript:alert(1))"),
    ],
)
def test_what_is_no_text_is_not_left_out(block: dict[str, Any], text: str) -> None:
    content = [{"type": "text", "text": "Here:"}, block]
    assert answer_of(CallToolResult.model_validate({"content": content})).text == f"Here:\n{text}"


def test_structured_content_is_the_answer_only_where_there_is_no_other() -> None:
    structured = {"price": 3, "name": "Zürich"}
    result: dict[str, Any] = {"content": [], "structuredContent": structured}
    text = answer_of(CallToolResult.model_validate(result)).text
    assert text.startswith("```json\n")
    assert json.loads(text.removeprefix("```json").removesuffix("```")) == structured
    result["content"] = [{"type": "text", "text": "It costs 3."}]
    assert answer_of(CallToolResult.model_validate(result)).text == "It costs 3."
    assert answer_of(CallToolResult.model_validate({"content": []})).text == ""
    result["content"] = [{"type": "text", "text": " \n"}]
    assert answer_of(CallToolResult.model_validate(result)).text == text


def test_large_structured_content_does_not_grow() -> None:
    deep: Any = [1] * 100_000
    for _ in range(190):
        deep = [deep]
    text = answer_of(CallToolResult.model_validate({"content": [], "structuredContent": {"deep": deep}})).text
    assert len(text) < 400_000
