"""Calls of agents with the official client, and their results in the terms of the interface contract."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mcp import Client
from mcp_types import CallToolResult, TextContent


@dataclass(frozen=True, slots=True)
class Line:
    """One progress notification."""

    progress: float
    total: float | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A result with the progress that came before it."""

    result: CallToolResult
    lines: list[Line] = field(default_factory=list[Line])

    @property
    def text(self) -> str:
        """The text of the one block."""
        [block] = self.result.content
        assert isinstance(block, TextContent)
        return block.text

    @property
    def messages(self) -> list[str | None]:
        """The progress messages in order."""
        return [line.message for line in self.lines]

    @property
    def error(self) -> dict[str, Any]:
        """The facts of a tool error."""
        assert self.result.is_error, self.text
        return (self.result.meta or {})["pallas/error"]

    @property
    def turn(self) -> str:
        """The id of the turn."""
        meta = self.result.meta or {}
        return meta["pallas/turn"] if "pallas/turn" in meta else meta["pallas/error"]["turn_id"]


async def call(
    client: Client, tool: str, message: str, on_line: Callable[[Line], object] | None = None, **more: Any
) -> Answer:
    """Send a message to an agent with a progress token; `more` are further arguments."""
    return await call_with(client, tool, {"message": message, **more}, on_line)


async def call_with(
    client: Client, tool: str, arguments: dict[str, Any], on_line: Callable[[Line], object] | None = None
) -> Answer:
    """Call a tool with a progress token and exactly these arguments; `on_line` gets each line as it arrives."""
    lines: list[Line] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        lines.append(Line(progress, total, message))
        if on_line is not None:
            on_line(lines[-1])

    result = await client.call_tool(tool, arguments, progress_callback=on_progress)
    return Answer(result, lines)
