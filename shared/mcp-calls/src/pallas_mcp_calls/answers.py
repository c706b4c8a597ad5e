"""Results and errors of MCP as the caller gets them."""

import json
import re
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from pallas_mcp_calls.connection import innermost, one_line
from pallas_mcp_calls.exchange import Exchange
from pallas_mcp_calls.model import ERROR_META, TURN_META, CallAnswer, CallFailed

_LONGEST_CODE = 64
_LONGEST_INDENTED = 8_000
"""Deep lists become hundreds of times longer when they are indented."""
_PLAIN_LINK = re.compile(r"https?://[^\s<>\\]+")
_BRACKETS = re.compile(r"[\[\]\\]")


def answer_of(result: CallToolResult) -> CallAnswer:
    """The result of a tool."""
    meta: dict[str, Any] = dict(result.meta or {})
    error = cast("dict[str, Any]", meta[ERROR_META]) if isinstance(meta.get(ERROR_META), dict) else {}
    wait = error.get("retry_after_ms")
    return CallAnswer(
        text=text_of(result),
        images=tuple(
            (_note(one.mime_type, one.data), one.data) for one in result.content if isinstance(one, ImageContent)
        ),
        failed=bool(result.is_error),
        code=_short(error.get("code")) if result.is_error else None,
        turn_id=_short(meta.get(TURN_META)) or _short(error.get("turn_id")),
        retryable=error.get("retryable") is True,
        retry_after=wait / 1000 if isinstance(wait, int) and wait >= 0 else None,
    )


def text_of(result: CallToolResult) -> str:
    """The content as Markdown: texts, links, notes of what is no text. Where there is none, the structured content."""
    text = "\n".join(map(_text_of_block, result.content))
    if text.strip() or result.structured_content is None:
        return text
    structured = json.dumps(result.structured_content, ensure_ascii=False)
    if len(structured) <= _LONGEST_INDENTED:
        structured = json.dumps(result.structured_content, ensure_ascii=False, indent=2)
    return f"```json\n{structured}\n```"


def _text_of_block(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ResourceLink():
            name = _on_a_line(block.title or block.name)
            if not _PLAIN_LINK.fullmatch(block.uri):
                return f"{name} ({_on_a_line(block.uri)})"
            return f"[{_BRACKETS.sub(r'\\\g<0>', name)}](<{block.uri}>)"
        case EmbeddedResource():
            file = block.resource
            return file.text if isinstance(file, TextResourceContents) else _note(file.mime_type, file.blob)
        case ImageContent() | AudioContent():
            return _note(block.mime_type, block.data)


def _note(mime_type: str | None, data: str) -> str:
    return f"[{_on_a_line(mime_type or 'data')}, {len(data) * 3 // 4000 + 1} kB: not shown]"


def _on_a_line(text: str) -> str:
    return " ".join(text.split())


def failure_of(error: Exception, exchange: Exchange) -> CallFailed:
    """Why a call has no result."""
    inner = innermost(error)
    if isinstance(inner, CallFailed):
        return inner
    if isinstance(inner, MCPError):
        if exchange.fault is not None and inner.code not in (INVALID_PARAMS, METHOD_NOT_FOUND):
            return exchange.fault
        if inner.code == PARSE_ERROR:
            return CallFailed("the agent's answer is not one of MCP", code="not_mcp")
        if inner.code == CONNECTION_CLOSED:
            return CallFailed("the connection to the agent was lost", code="connection_lost", lost=True)
        return CallFailed(f"the agent refuses the call: {one_line(inner)}", code="protocol")
    return exchange.fault or CallFailed("the agent's answer is not one of MCP", code="not_mcp")


def is_stale(error: MCPError, exchange: Exchange) -> bool:
    """Whether the server does not know this connection any more, so that it cannot have started the call."""
    return exchange.session_lost or error.code == UNSUPPORTED_PROTOCOL_VERSION


def _short(value: object) -> str | None:
    return value[:_LONGEST_CODE] if isinstance(value, str) and value else None
