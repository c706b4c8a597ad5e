"""Converts MCP tool results for the model. Structured content is used only when there is no other content."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents
from pydantic_ai.exceptions import (
    ContentFilterError,
    IncompleteToolCall,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import (
    BinaryContent,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_core import ValidationError, from_json

from agent_worker.llm.models import AgentModel

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


_HELP = (
    "Increase the `max_tokens` model setting, or simplify the prompt to result in a shorter response "
    "that will fit within the limit."
)


def unknown_tool(call: ToolCallPart, known: Iterable[str]) -> ToolReturnPart:
    """The result of a call of a tool that does not exist."""
    names = ", ".join(repr(name) for name in sorted(known))
    text = f"Available tools: {names}" if names else "No tools available."
    return ToolReturnPart(
        call.tool_name,
        f"Unknown tool name: {call.tool_name!r}. {text}",
        call.tool_call_id,
        outcome="retried",
        retry=RetryInfo("unknown_tool"),
    )


def bad_arguments(call: ToolCallPart, error: ValidationError) -> ToolReturnPart:
    """The result of a call whose arguments are no JSON object."""
    faults: list[object] = from_json(error.json(include_url=False, include_context=False))
    return ToolReturnPart(
        call.tool_name, faults, call.tool_call_id, outcome="retried", retry=RetryInfo("validation_error")
    )


def refused_again(call: ToolCallPart, response: ModelResponse, model: AgentModel) -> UnexpectedModelBehavior:
    """The error of a second call with arguments that are no JSON object."""
    if response.finish_reason == "length" and response.parts[-1] is call:
        return IncompleteToolCall(
            f"Model token limit ({_limit(model)}) exceeded while generating a tool call, "
            f"resulting in incomplete arguments. {_HELP}"
        )
    return UnexpectedModelBehavior(f"Tool {call.tool_name!r} exceeded max retries count of 1.")


def no_output(response: ModelResponse, model: AgentModel, *, has_tools: bool, again: bool) -> RetryFeedbackPart:
    """The request for text or a call, after a response that had neither.

    Raises:
        UnexpectedModelBehavior: it was cut off or filtered, or it happens again.
    """
    if response.finish_reason == "length":
        raise OutputTokenLimitExceeded(
            f"Model token limit ({_limit(model)}) exceeded before any response was generated. {_HELP}"
        )
    if response.finish_reason == "content_filter":
        raise ContentFilterError(_filtered(response))
    if again:
        raise UnexpectedModelBehavior("Exceeded maximum output retries (1)")
    text = "Please return text or call a tool." if has_tools else "Please return text."
    return RetryFeedbackPart(content=text, retry=RetryInfo("no_output"))


def _limit(model: AgentModel) -> int | str:
    return model.settings.get("max_tokens") or "provider default"


def _filtered(response: ModelResponse) -> str:
    details = response.provider_details or {}
    reasons = [
        f"{title}: {details[name]!r}"
        for name, title in (("finish_reason", "Finish reason"), ("refusal", "Refusal"))
        if details.get(name)
    ]
    return f"Content filter triggered. {'. '.join(reasons)}".rstrip()
