"""One call of a downstream tool in a turn: its progress is emitted, and its errors get codes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_worker.downstream.server import DownstreamServer
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import ToolProgress, ToolStarted
from pallas_hosting.redact import redact
from pallas_turns.events import Emitter

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool


class CallFailed(Exception):
    """A call has no result. `code` is `unreachable` or `tool_error`; `message` is redacted."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


async def call_tool(
    server: DownstreamServer, started: ToolStarted, arguments: JsonObject, emit: Emitter
) -> "CallToolResult":
    """Make the call that `started` names.

    Raises:
        CallFailed: there is no result.
    """

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        emit.emit(
            ToolProgress(
                call=started.call,
                server=started.server,
                tool=started.tool,
                progress=progress,
                total=total,
                message=message,
            )
        )

    try:
        return await server.call(started.tool, arguments, on_progress)
    except Unavailable as error:
        raise CallFailed("unreachable", error.message) from error
    except Exception as error:  # any other error of the SDK is a failure of this tool
        raise CallFailed("tool_error", redact(str(error)) or type(error).__name__) from error


type MayRepeat = Callable[[str, str], bool | None]
"""Whether the team lets a tool of a server be called again after a worker was lost. None: it does not say."""


def is_safe(server: str, tool: "Tool", may_repeat: MayRepeat) -> bool:
    """Whether a tool may be called again: what the team says comes before what the tool says of itself."""
    said, hints = may_repeat(server, tool.name), tool.annotations
    return said if said is not None else hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
