"""One call of a tool: the request, and those after it that answer what the tool asks."""

import asyncio
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    URL_ELICITATION_REQUIRED,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestURLParams,
    InputRequiredResult,
    InputResponses,
    RequestParamsMeta,
)
from pydantic import BaseModel, Field, ValidationError

from pallas_mcp_calls.connection import Connection
from pallas_mcp_calls.exchange import Exchange
from pallas_mcp_calls.model import KEY_META, CallFailed
from pallas_mcp_calls.questions import ask
from pallas_mcp_calls.sessions import send_call

MOST_ROUNDS = 20
_PAUSE_SECONDS = 0.25


class _Pages(BaseModel):
    """The data of the error that names pages to visit."""

    elicitations: list[ElicitRequestURLParams] = Field(min_length=1)


async def call_tool(
    connection: Connection, name: str, arguments: dict[str, Any] | None, meta: dict[str, Any], exchange: Exchange
) -> CallToolResult:
    """Call a tool until it has a result.

    Raises:
        MCPError: the server refuses the call, or the connection is lost.
        ValidationError: the answer is not one of MCP.
        CallFailed: the tool asks for something that nobody here can give.
    """
    session = (await connection.client()).session
    token = meta.get("progressToken", "")
    params = CallToolRequestParams(name=name, arguments=arguments, _meta=_meta(meta) if meta else None)
    connection.follow(token, exchange)
    try:
        for round_ in range(MOST_ROUNDS):
            try:
                result = await send_call(session, params)
            except MCPError as error:
                await _visit_pages(error, exchange)
                if KEY_META in meta:  # under the same key the answer would be the same
                    params.meta = _meta({**meta, KEY_META: f"{meta[KEY_META]}:{round_ + 1}"})
                continue
            if isinstance(result, CallToolResult):
                return result
            params.input_responses = await _responses(result, exchange)
            params.request_state = result.request_state
    finally:
        connection.unfollow(token)
    raise CallFailed("the agent asks for input again and again", code="protocol")


def _meta(meta: dict[str, Any]) -> RequestParamsMeta:
    """`_meta` with keys that MCP does not name."""
    return RequestParamsMeta(**meta)


async def _responses(result: InputRequiredResult, exchange: Exchange) -> InputResponses | None:
    """What the tool asks for (from revision 2026-07-28 on), asked one after the other."""
    if not result.input_requests:
        await asyncio.sleep(_PAUSE_SECONDS)
        return None
    responses = InputResponses()
    for name, request in result.input_requests.items():
        if not isinstance(request, ElicitRequest):
            raise CallFailed("the agent asks for what only models or files could answer", code="protocol")
        responses[name] = await ask(exchange, request.params)
    return responses


async def _visit_pages(error: MCPError, exchange: Exchange) -> None:
    """Let the person visit the pages without which the tool does not work (revision 2025-11-25).

    Raises:
        MCPError: it is another error, or the person does not want to.
    """
    if error.code != URL_ELICITATION_REQUIRED:
        raise error
    try:
        pages = _Pages.model_validate(error.error.data).elicitations
    except ValidationError:
        raise error from None
    for page in pages:
        if (await ask(exchange, page)).action != "accept":
            raise error
