"""Hears from fast-agent of sub-agents, of members of workflows, and of the progress of tools."""

from typing import Any

from mcp_types import ContentBlock

from fast_agent_worker.turns.places import HERE
from fast_agent_worker.turns.scope import TurnScope


class Relay:
    """A `ToolExecutionHandler` of fast-agent. The ids of calls are their places in the turn."""

    def __init__(self, scope: TurnScope) -> None:
        self._scope = scope

    async def on_tool_start(
        self, tool_name: str, server_name: str, arguments: dict[str, Any] | None, tool_use_id: str | None = None
    ) -> str:
        """Return the place of a tool whose start the log has. Of a sub-agent, emit that it is called."""
        here = HERE.get()
        call = here.batch.get(tool_use_id or "")
        if here.tool or call is None:
            return here.tool
        name = bare(tool_name)
        return self._scope.entered(call, name, f"{name}__{name}", name)

    async def on_tool_progress(
        self, tool_call_id: str, progress: float, total: float | None, message: str | None
    ) -> None:
        """Relay it."""
        self._scope.progress(tool_call_id, progress, total, message)

    async def on_tool_complete(
        self, tool_call_id: str, success: bool, content: list[ContentBlock] | None, error: str | None
    ) -> None:
        """An agent has answered. The ends of other tools are heard where they are called."""
        if tool_call_id != HERE.get().tool:
            self._scope.ended(tool_call_id, "" if success else "tool_error")

    async def on_tool_permission_denied(
        self, tool_name: str, server_name: str, tool_use_id: str | None, error: str | None = None
    ) -> None:
        """Nobody denies anything here."""

    async def get_tool_call_id_for_tool_use(self, tool_use_id: str) -> str | None:
        """The place of the call."""
        return HERE.get().batch.get(tool_use_id)

    async def ensure_tool_call_exists(
        self, tool_use_id: str, tool_name: str, server_name: str, arguments: dict[str, Any] | None = None
    ) -> str:
        """The place of the call."""
        return HERE.get().batch.get(tool_use_id, "")


class WorkflowRelay(Relay):
    """The same for the steps of a workflow: which of its agents it calls."""

    async def on_tool_start(
        self, tool_name: str, server_name: str, arguments: dict[str, Any] | None, tool_use_id: str | None = None
    ) -> str:
        """Emit that an agent of the workflow is called."""
        member = str((arguments or {}).get("agent") or tool_name)
        return self._scope.entered(self._scope.next_member(), server_name, member, bare(member))


def bare(name: str) -> str:
    """An agent's name, without what fast-agent adds for an instance that is called as a tool."""
    return name.partition("[")[0] if name.endswith("]") else name
