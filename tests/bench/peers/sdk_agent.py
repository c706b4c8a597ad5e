"""The same agent as one writes it with pydantic-ai's `Agent`, served in process by the MCP SDK.

It has the same instruction and model. Its events go to the caller in the same lines as the gateway's, with nothing in
between.
"""

import asyncio
import os
import sys
import time
from itertools import count
from pathlib import Path

import mcp_types as types
from pydantic_ai import Agent
from tests.bench.peers.serving import Context, sdk_app, serve, text_result

from agent_gateway.answers.progress import ProgressObserver
from agent_worker.llm.models import AgentModel, TeamModels
from pallas_contracts.turns import KnownEvent, LogMessage, Step, ToolFailed, ToolStarted
from pallas_teams import load_teams
from pallas_teams.model import ProviderConfig
from pallas_teams.providers import OFFLINE

TEAM = Path(__file__).parents[1] / "team"
AGENT = "talker"


class QueuedEmitter:
    """Sends events to the caller by a task, in order."""

    def __init__(self, observer: ProgressObserver) -> None:
        self._observer = observer
        self._events: asyncio.Queue[KnownEvent | None] = asyncio.Queue()
        self._telling = asyncio.create_task(self._tell())
        self._seq = 0

    def emit(self, event: KnownEvent) -> None:
        """Number the event and queue it."""
        self._seq += 1
        self._events.put_nowait(event.model_copy(update={"seq": self._seq, "at": time.time_ns() // 1_000_000}))

    async def finish(self) -> None:
        """Wait until all events are sent."""
        self._events.put_nowait(None)
        await self._telling

    async def _tell(self) -> None:
        while (event := await self._events.get()) is not None:
            await self._observer.on_event(event)


async def _drop_log(_said: LogMessage) -> None:
    pass


class InProcess:
    """Calls of the agent."""

    def __init__(self, model: AgentModel, instruction: str) -> None:
        self._agent = Agent(model.model, name=AGENT, instructions=instruction, model_settings=model.settings)

    async def call(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Run the agent here and now."""
        emitter = QueuedEmitter(ProgressObserver(AGENT, True, context.session.report_progress, _drop_log))
        answer = await self._run(str((params.arguments or {})["message"]), emitter)
        await emitter.finish()
        return text_result(answer)

    async def _run(self, message: str, emitter: QueuedEmitter) -> str:
        steps = count(1)
        async with self._agent.iter(message) as run:
            async for node in run:
                if Agent.is_model_request_node(node):
                    emitter.emit(Step(agent=AGENT, n=next(steps), kind="llm"))
                elif Agent.is_call_tools_node(node) and node.model_response.tool_calls:
                    emitter.emit(Step(agent=AGENT, n=next(steps), kind="tool"))
                    for call in node.model_response.tool_calls:
                        number, tool = call.tool_call_id, call.tool_name
                        emitter.emit(ToolStarted(call=number, server=AGENT, tool=tool, leaf=False))
                        failed = ToolFailed(call=number, server=AGENT, tool=tool, duration_ms=0.0, code="unknown_tool")
                        emitter.emit(failed)
        assert run.result is not None
        return run.result.output


def main() -> None:
    """Make the agent and serve it."""
    [folder] = load_teams((TEAM,), os.environ)
    config = folder.agents[AGENT]
    model = TeamModels().make(config, ProviderConfig(OFFLINE))
    serve(sdk_app(AGENT, InProcess(model, config.instruction).call), int(sys.argv[1]))


if __name__ == "__main__":
    main()
