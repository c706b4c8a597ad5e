"""Which messages are a well-formed `tools/call`, for which the gateway has a path of its own (`serve_call`).

Each check is one of the SDK's. A request that fails one is left to the SDK, which refuses it in its own words. Only
what the SDK reads too loosely is refused here (`read_posted`): it would be lost, or mean something else elsewhere.
"""

from dataclasses import dataclass
from typing import Any

from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import (
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
    validate_mcp_param_headers,
)
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    CallToolRequestParams,
    JSONRPCMessage,
    JSONRPCRequest,
    RequestId,
    jsonrpc_message_adapter,
)
from starlette.requests import Request

from pallas_contracts.bounds import Json, JsonObject
from pallas_jsonrpc.messages import INVALID_REQUEST, Unreadable
from pallas_jsonrpc.serving import read_requests
from pallas_jsonrpc.strict_json import read_apart

METHOD = "tools/call"


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A well-formed `tools/call`. Its connection, in the SDK's sense, lasts as long as the request."""

    request: Request
    request_id: RequestId
    params: dict[str, Any]
    connection: Connection


async def read_posted(body: bytes) -> Json:
    """The message or the batch that was posted.

    Raises:
        Unreadable: it is no strict JSON, a batch that is empty or too long, or a request with an id that is none.
    """
    value = await read_apart(read_requests, body)
    check_id(value)
    return value


def check_id(message: Json) -> None:
    """Check the id of a request.

    Raises:
        Unreadable: it is neither a string nor a whole number.
    """
    if not isinstance(message, dict) or "method" not in message or "id" not in message:
        return
    if isinstance(given := message["id"], bool) or not isinstance(given, str | int):
        raise Unreadable(INVALID_REQUEST, "id must be a string or a whole number")


def read_modern(server: Server[Any], request: Request, posted: JsonObject) -> CallRequest | None:
    """The call in a request of the modern era; None when it is not a well-formed one."""
    if not all(check_accept_headers(request)):
        return None
    try:
        message = JSONRPCRequest.model_validate(posted)
        asked = _params(message)
    except ValueError:  # pydantic's ValidationError
        return None
    if asked is None or message.params is None or find_duplicated_routing_header(request.headers.items()) is not None:
        return None
    route = classify_inbound_request(posted, headers=dict(request.headers))
    if not isinstance(route, InboundModernRoute) or not _has_param_headers(server, request, asked):
        return None
    connection = Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
    return CallRequest(request, message.id, message.params, connection)


def read_handshake(request: Request, posted: JsonObject) -> CallRequest | None:
    """The call in a request of the handshake era; None when it is not a well-formed one."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if media_type != "application/json" or not all(check_accept_headers(request)):
        return None
    try:
        message = jsonrpc_message_adapter.validate_python(posted, by_name=False)
        asked = _params(message)
    except ValueError:
        return None
    if asked is None or not isinstance(message, JSONRPCRequest) or message.params is None:
        return None
    version = request.headers.get("mcp-protocol-version", DEFAULT_NEGOTIATED_VERSION)
    return CallRequest(request, message.id, message.params, Connection.from_envelope(version, None, None))


def _params(message: JSONRPCMessage) -> CallToolRequestParams | None:
    """The params of a `tools/call`; None of any other message.

    Raises:
        ValidationError: they are malformed.
    """
    if not isinstance(message, JSONRPCRequest) or message.method != METHOD:
        return None
    return CallToolRequestParams.model_validate(message.params, by_name=False)


def _has_param_headers(server: Server[Any], request: Request, asked: CallToolRequestParams) -> bool:
    """Whether the headers repeat those arguments that the schema of the tool wants in headers."""
    schema = server.get_tool_input_schema(asked.name) if server.get_tool_input_schema else None
    return schema is None or validate_mcp_param_headers(schema, asked.arguments or {}, request.headers) is None
