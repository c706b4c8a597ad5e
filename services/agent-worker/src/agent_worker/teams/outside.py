"""What a function calls outside of its module: tools of downstream servers and LLM agents of its team."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_worker.downstream.calls import CallFailed, MayRepeat, call_tool, is_safe
from agent_worker.downstream.server import DownstreamServer
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import ToolStarted
from pallas_executor.agent_runtime import Emitter
from pallas_executor.functions import StepFailed
from pallas_executor.steps import Steps

if TYPE_CHECKING:
    from agent_worker.llm.runtime import LlmRuntime
    from pallas_executor.teams.scope import TurnScope

_PARTS = {"content", "structured_content", "is_error"}


@dataclass(frozen=True, slots=True)
class Reach:
    """The servers and agents that a function agent names. `may_repeat` is as in `LlmRuntime`."""

    servers: Mapping[str, DownstreamServer]
    agents: "Mapping[str, LlmRuntime]"
    may_repeat: MayRepeat

    def open(self, steps: Steps, emit: Emitter) -> "TurnOutside":
        """What one attempt can call."""
        return TurnOutside(self, steps, emit)


class TurnOutside:
    """The `Outside` of one attempt."""

    def __init__(self, reach: Reach, steps: Steps, emit: Emitter) -> None:
        self._reach = reach
        self._steps = steps
        self._emit = emit
        self._opened: TurnScope | None = None

    async def may_repeat(self, server: str, tool: str) -> bool:
        """Whether the team or the tool itself says so."""
        may_repeat = self._reach.may_repeat
        if (said := may_repeat(server, tool)) is not None:
            return said
        with suppress(Unavailable, KeyError):
            tools = await self._reach.servers[server].tools()
            return any(is_safe(server, it, may_repeat) for it in tools if it.name == tool)
        return False

    async def call_tool(self, started: ToolStarted, arguments: JsonObject) -> JsonObject:
        """Call a tool."""
        if (server := self._reach.servers.get(started.server)) is None:
            raise StepFailed("unknown_server", f"{started.server!r} is not among the servers of this agent")
        try:
            result = await call_tool(server, started, arguments, self._emit)
        except CallFailed as error:
            raise StepFailed(error.code, error.message) from error
        return result.model_dump(mode="json", include=_PARTS, by_alias=True, exclude_none=True)

    async def call_agent(self, started: ToolStarted, message: str) -> str:
        """Run an agent. All of a turn share one scope, which counts their steps."""
        if (agent := self._reach.agents.get(started.server)) is None:
            raise StepFailed("unknown_agent", f"{started.server!r} is not among the agents that this one depends on")
        from agent_worker.llm.failures import RunFailed

        try:
            return await agent.ask(message, self._scope(), f"{started.call}.")
        except RunFailed as error:
            raise StepFailed(error.failed.code, error.failed.message) from error

    def _scope(self) -> "TurnScope":
        from pallas_executor.teams.scope import TurnScope

        if self._opened is None:
            self._opened = TurnScope(self._emit, self._steps)
        return self._opened
