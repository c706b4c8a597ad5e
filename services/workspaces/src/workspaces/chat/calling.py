"""Agents as the chat sees them: where they are, how they are, and how they are called."""

from collections.abc import Mapping
from typing import Any, Protocol

from pallas_mcp_calls.model import CallAnswer, OnProgress, OnQuestion, OnText, Target
from workspaces.answers import HealthView


class Caller(Protocol):
    """Calls agents over MCP: `pallas_mcp_calls.calls.AgentCalls`."""

    async def call(
        self,
        target: Target,
        tool: str | None,
        arguments: Mapping[str, Any],
        *,
        agent: str | None,
        key: str | None,
        on_progress: OnProgress,
        on_text: OnText,
        on_question: OnQuestion,
    ) -> CallAnswer:
        """Call a tool; None: the one that is made for messages.

        Raises:
            CallFailed: there is no answer.
        """
        ...

    async def keeps_keys(self, target: Target) -> bool:
        """Whether a call can be repeated under its key without being executed twice.

        Raises:
            CallFailed: the agent cannot be asked.
        """
        ...


class Places(Protocol):
    """Where agents are."""

    async def target_of(self, instance_id: str, server_id: str) -> Target:
        """The endpoint of an agent, also of one that was detached.

        Raises:
            NotFound: there is no such agent any more.
        """
        ...


class Healths(Protocol):
    """The cached health of agents."""

    def of(self, instance_id: str, server_id: str) -> HealthView:
        """The health of an agent as it was checked last."""
        ...

    async def check_now(self, instance_id: str, server_id: str) -> HealthView:
        """Check it now, unless that was done a moment ago."""
        ...
