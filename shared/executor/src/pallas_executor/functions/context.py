"""What a function gets besides its arguments, and the exception that answers with a JSON-RPC error."""

from dataclasses import dataclass
from typing import Any

from pallas_contracts.agents import JsonObject
from pallas_contracts.turns import LOG_LEVELS, ClientContext, LogMessage, Progress, ToolStarted
from pallas_executor.agent_runtime import Emitter, Turn


class ProtocolFault(Exception):
    """Answer the caller with a JSON-RPC error instead of a result.

    `code` is the JSON-RPC error code, `data` goes with it.
    """

    def __init__(self, code: int, message: str, data: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@dataclass(frozen=True, slots=True)
class CallContext:
    """One call of a tool."""

    turn: Turn
    emit: Emitter

    @property
    def client(self) -> ClientContext:
        """What the caller's client declared: protocol revision and capabilities."""
        return self.turn.client

    @property
    def input_responses(self) -> JsonObject | None:
        """The caller's answers to the `InputRequired` of its previous call; None on a first call."""
        return self.turn.input_responses

    @property
    def request_state(self) -> str | None:
        """The `request_state` of that `InputRequired`, as it came back."""
        return self.turn.request_state

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the caller; values must increase."""
        self.emit.emit(Progress(progress=progress, total=total, message=message))

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send the caller an MCP log message; dropped when it asked for a higher level only."""
        wanted = self.client.log_level
        if wanted in LOG_LEVELS and level in LOG_LEVELS and LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
            return
        self.emit.emit(LogMessage(level=level, data=data, logger=logger))

    async def side_effect(self, name: str) -> None:
        """Record that something begins that must not happen twice. If the worker is lost after this, the turn fails.

        Raises:
            Superseded: another attempt has taken over; do nothing.
        """
        await self.emit.tool_starting(ToolStarted(call=name, server=self.turn.agent, tool=name))


@dataclass(frozen=True, slots=True)
class ReadContext:
    """One read of a prompt, resource or completion. `params` are the MCP params as received."""

    team: str
    agent: str
    params: JsonObject
