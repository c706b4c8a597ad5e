"""The very agent that the worker runs, made by the same code from the same folder, served in process by the SDK.

What the runtime emits goes to the caller as it does from the gateway, in the same lines, with nothing in between.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

import mcp_types as types
from tests.bench.peers.serving import Context, sdk_app, serve, text_result

from agent_gateway.answers.progress import ProgressObserver
from agent_worker.teams.make_agents import host_team
from pallas_contracts.ids import new_turn_id
from pallas_contracts.turns import ClientContext, KnownEvent, LogMessage, ToolStarted
from pallas_executor.agent_runtime import AgentRuntime, Completed, Turn
from pallas_teams import load_teams

TEAM = Path(__file__).parents[1] / "team"
AGENT = "talker"


class QueuedEmitter:
    """An `Emitter` whose events are sent to the caller by a task, in order."""

    def __init__(self, observer: ProgressObserver) -> None:
        self._observer = observer
        self._events: asyncio.Queue[KnownEvent | None] = asyncio.Queue()
        self._telling = asyncio.create_task(self._tell())
        self._seq = 0

    def emit(self, event: KnownEvent) -> None:
        """Number the event and queue it."""
        self._seq += 1
        self._events.put_nowait(event.model_copy(update={"seq": self._seq, "at": time.time_ns() // 1_000_000}))

    async def tool_starting(self, event: ToolStarted) -> None:
        """Queue it; there is no log to wait for."""
        self.emit(event)

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

    def __init__(self, runtime: AgentRuntime) -> None:
        self.runtime = runtime

    async def call(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Run a turn here and now."""
        emitter = QueuedEmitter(ProgressObserver(AGENT, True, context.session.report_progress, _drop_log))
        turn = Turn(
            turn_id=new_turn_id(),
            team="bench",
            agent=AGENT,
            tool=AGENT,
            arguments=params.arguments or {},
            attempt=1,
            remaining=600.0,
            client=ClientContext(protocol_version=context.protocol_version, progress=True),
        )
        outcome = await self.runtime.run_turn(turn, emitter)
        await emitter.finish()
        if not isinstance(outcome, Completed):
            return text_result(str(outcome), is_error=True)
        return text_result(str(outcome.result.content[0]["text"]))


def main() -> None:
    """Make the agent and serve it."""
    [folder] = load_teams((TEAM,), os.environ)
    hosted = asyncio.run(host_team(folder))
    [runtime] = [agent.runtime for agent in hosted.agents if agent.definition.agent == AGENT]
    serve(sdk_app(AGENT, InProcess(runtime).call), int(sys.argv[1]))


if __name__ == "__main__":
    main()
