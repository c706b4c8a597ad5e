"""The observers of a `tools/call`: they send its events on the SDK's stream, or on one that can be resumed."""

from dataclasses import dataclass
from functools import partial

import mcp_types as types
from mcp_types.version import is_version_at_least

from agent_gateway.answers.progress import ProgressObserver, wanted_levels
from agent_gateway.caller import is_released
from agent_gateway.handshake.event_stream import PRIMED_SINCE, SCOPE_KEY, EventStream, FollowedCall, StreamObserver
from agent_gateway.handshake.sessions import Sessions, forget_call, remember_call
from agent_gateway.mcp.request import (
    Context,
    is_modern,
    request_token,
    scope_of,
    session_of,
    wants_progress,
    wants_text,
)
from pallas_bus.connection import Bus
from pallas_bus.kv import Table
from pallas_contracts.agents import ToolDefinition
from pallas_contracts.health import AgentHealth
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import LogMessage, TurnRequested
from pallas_turns.calls import Calls
from pallas_turns.claims import TurnRef


@dataclass(frozen=True)
class Platform:
    """Shared by the MCP servers of all agents. `key` signs event ids and makes turn ids of idempotency keys."""

    bus: Bus
    calls: Calls
    healths: Table[AgentHealth]
    sessions: Sessions
    key: LogKey


def progress_observer(context: Context, agent: str, log_level: str | None) -> ProgressObserver:
    """Sends on the SDK's stream of the call. In the modern era closing that stream means that the caller left."""
    modern = is_modern(context)
    levels = wanted_levels(log_level, modern=modern)
    report = context.session.report_progress if wants_progress(context) else None
    scope = scope_of(context)

    async def write_log(entry: LogMessage) -> None:
        if entry.level not in levels:
            return
        params = types.LoggingMessageNotificationParams.model_validate(
            {"level": entry.level, "data": entry.data, "logger": entry.logger}
        )
        await context.session.send_notification(
            types.LoggingMessageNotification(params=params), related_request_id=context.request_id
        )

    return ProgressObserver(
        agent,
        modern,
        report,
        write_log,
        listens=report is not None or bool(levels),
        left=lambda: modern and not is_released(scope),
        text=wants_text(context),
    )


def event_stream_of(context: Context) -> EventStream | None:
    """The resumable stream of a handshake-era request; None in the modern era."""
    stream = context.request.scope.get(SCOPE_KEY) if context.request else None
    return stream if isinstance(stream, EventStream) else None


def stream_observer(
    context: Context,
    stream: EventStream,
    platform: Platform,
    tool: ToolDefinition,
    request: TurnRequested,
    log_level: str | None,
) -> StreamObserver:
    """Sends on a resumable stream. In a session it also stores the turn, so that the request can be cancelled.

    What it stored has to be removed at the end: see `StreamObserver.answered`.
    """
    ref, token = TurnRef.of(request), (context.meta or {}).get("progress_token")
    assert context.request_id is not None, "a call is a request"
    checked = tool.name if tool.output_schema is not None else None
    call = FollowedCall(ref, context.request_id, token, log_level, request.principal, wants_text(context), checked)
    session = session_of(context)
    primes = is_version_at_least(context.protocol_version, PRIMED_SINCE)
    observer = StreamObserver(platform.key, call, stream.write, primes=primes)
    if session is not None:
        known = (platform.bus, session, request_token(context.request_id))
        observer.remember, observer.forget = partial(remember_call, *known, request), partial(forget_call, *known)
    return observer
