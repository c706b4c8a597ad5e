"""What an MCP request contains: the caller, the era, the session, and whether it wants progress."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from agent_gateway.caller import principal_of
from pallas_contracts.turns import ClientContext, Principal
from pallas_turns.model import Call, Refusal

type Context = ServerRequestContext[Any, Request]

TEXT_META = "pallas/text-deltas"
SESSION_HEADER = "mcp-session-id"


def is_modern(context: Context) -> bool:
    """Whether the request is of a revision without a handshake."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def scope_of(context: Context) -> dict[str, Any]:
    """The ASGI scope of the request; empty without HTTP."""
    return dict(context.request.scope) if context.request else {}


def session_of(context: Context) -> str | None:
    """The handshake-era session of a request, as a token for bucket keys; None without one."""
    if context.request is None or is_modern(context):
        return None
    session = context.request.headers.get(SESSION_HEADER)
    return session_token(session, principal_of(context.request.scope)) if session else None


def bearer_owner(context: Context) -> str | None:
    """The only caller from whom a `requestState` is accepted. None: any caller without a bearer."""
    caller = principal_of(scope_of(context))
    return None if caller.type == "peer" else caller.label


def wants_progress(context: Context) -> bool:
    """Whether the request has a progress token."""
    return "progress_token" in (context.meta or {})


def wants_text(context: Context) -> bool:
    """Whether the request asks for the text of the agent's model as it is written, which comes as progress."""
    return wants_progress(context) and (context.meta or {}).get(TEXT_META) is True


def call_of(context: Context, params: types.CallToolRequestParams, key: str | None, log_level: str | None) -> Call:
    """A `tools/call` request as a `Call`."""
    capabilities = context.session.client_capabilities
    return Call(
        tool=params.name,
        client=ClientContext(
            protocol_version=context.protocol_version,
            capabilities=capabilities.model_dump(mode="json", by_alias=True, exclude_none=True) if capabilities else {},
            log_level=log_level,
            progress=wants_progress(context),
        ),
        principal=principal_of(scope_of(context)),
        key=key,
        input_responses=(context.params or {}).get("inputResponses"),
        request_state=(context.params or {}).get("requestState"),
    )


def session_token(session: str, caller: Principal) -> str:
    """A session id as a token for bucket keys. The sessions of a caller with a bearer are its own."""
    owner = "" if caller.type == "peer" else f"{caller.label}:"
    return hashlib.sha256(f"{owner}{session}".encode()).hexdigest()[:32]


def request_token(request_id: object) -> str:
    """A JSON-RPC request id (a string or a number) as a token for bucket keys."""
    return hashlib.sha256(json.dumps(request_id).encode()).hexdigest()[:32]


KEY_META = "pallas/idempotency-key"
CANCEL_META = "pallas/cancel"
MAX_LENGTH = 200


def idempotency_key(meta: Mapping[str, Any] | None) -> str | Refusal | None:
    """The key in the `_meta` of a call, None without one; a refusal if it is invalid, or a cancel has none."""
    if not meta or KEY_META not in meta:
        missing = Refusal("invalid_arguments", f"_meta[{CANCEL_META!r}] needs _meta[{KEY_META!r}]")
        return missing if cancels(meta) else None
    key = meta[KEY_META]
    if isinstance(key, str) and 1 <= len(key) <= MAX_LENGTH:
        return key
    return Refusal("invalid_arguments", f"_meta[{KEY_META!r}] must be a string of 1 to {MAX_LENGTH} characters")


def cancels(meta: Mapping[str, Any] | None) -> bool:
    """Whether a call is an order to cancel the turn of its idempotency key."""
    return (meta or {}).get(CANCEL_META) is True
