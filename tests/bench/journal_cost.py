"""What it costs to keep the journal: CPU of the loop of an agent in this process, with it and without.

Without it, a loop makes the same calls and emits the same events, and only the answers are not recorded. Each answer is
a message of its own, which is the worst case: the model says nothing beside its calls, and a call takes longer than
events wait for each other. The broker is a real one, and this process follows the turns as a gateway does.
"""

import asyncio
import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pydantic import SecretStr
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings
from tests.bench import stack
from tests.bench.processes import Measured

from agent_worker.downstream.server import DownstreamServer, OnProgress
from agent_worker.llm import runtime
from agent_worker.llm.calls import AgentJournal
from agent_worker.llm.models import AgentModel
from pallas_bus.connection import Bus, connect
from pallas_bus.streams import declare
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import GATEWAY, TURN_LOG, TURN_QUEUE
from pallas_contracts.ids import new_turn_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, ClientContext
from pallas_teams.model import HttpServer
from pallas_turns.claims import TurnRef, claim
from pallas_turns.feeds import TurnFeeds, follow_turns
from pallas_turns.runtime import Completed, Turn
from pallas_turns.submit import not_relayed
from pallas_turns.write import TurnWriter

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

_CALLS = 20
_STEPS = 2 * _CALLS + 1
"""Steps of a turn: the model's, and those of its tool."""
_AT_ONCE = 20
_SECONDS = 0.005
_TEXT = "x" * 1000


class _Server(DownstreamServer):
    """A downstream server without a connection. Its tool answers with a thousand characters."""

    def __init__(self) -> None:
        super().__init__(HttpServer(name="server", url=SecretStr("http://127.0.0.1:9/mcp"), headers={}), "server")

    async def tools(self) -> "list[Tool]":
        from mcp_types import Tool

        return [Tool(name="look", input_schema={"type": "object"})]

    async def call(self, tool: str, arguments: JsonObject, on_progress: OnProgress) -> "CallToolResult":
        from mcp_types import CallToolResult, TextContent

        await asyncio.sleep(_SECONDS)
        return CallToolResult(content=[TextContent(type="text", text=_TEXT)])


class _NoJournal(AgentJournal):
    """A journal that records nothing."""

    async def add_response(self, call: str, response: ModelResponse) -> None:
        pass

    async def add_result(self, call: str, result: ToolReturnPart) -> None:
        pass


async def _answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Call the tool, or answer when that was done often enough."""
    await asyncio.sleep(_SECONDS)
    answered = sum(isinstance(message, ModelResponse) for message in messages)
    return ModelResponse([ToolCallPart("server__look", {}) if answered < _CALLS else TextPart("done")])


def measure(rounds: int, report: Callable[[str], None]) -> dict[str, Any]:
    """CPU of a step in ms, with the journal and without; the difference in this process, and in the broker."""
    with stack.broker() as (url, nats):
        return asyncio.run(_measure(url, nats, rounds, report))


async def _measure(url: str, nats: Measured, rounds: int, report: Callable[[str], None]) -> dict[str, Any]:
    kept: list[float] = []
    bare: list[float] = []
    broker = {"kept": 0.0, "bare": 0.0}
    async with connect(url, "bench") as bus, connect(url, GATEWAY) as reading, follow_turns(reading) as feeds:
        await declare(reading, TURN_QUEUE, TURN_LOG)
        await _run_all(bus, feeds)
        for number in range(1, rounds + 1):
            report(f"cost of the journal, round {number} of {rounds}")
            before = nats.cpu_seconds()
            kept.append(await _run_all(bus, feeds))
            between = nats.cpu_seconds()
            with patch.object(runtime, "AgentJournal", _NoJournal):
                bare.append(await _run_all(bus, feeds))
            broker["kept"] += between - before
            broker["bare"] += nats.cpu_seconds() - between
    steps = rounds * _AT_ONCE * _STEPS
    cost = median(one - other for one, other in zip(kept, bare, strict=True))
    broker_ms = 1000 * (broker["kept"] - broker["bare"]) / steps
    return {
        "steps": steps,
        "kept_ms": median(kept),
        "bare_ms": median(bare),
        "cost_ms": cost,
        "cost_ms_rounds": [one - other for one, other in zip(kept, bare, strict=True)],
        "broker_ms": broker_ms,
        "all_ms": cost + broker_ms,
    }


async def _run_all(bus: Bus, feeds: TurnFeeds) -> float:
    """Run turns at once. Returns the CPU of a step in ms."""
    before = time.process_time()
    await asyncio.gather(*(_run(bus, feeds) for _ in range(_AT_ONCE)))
    return 1000 * (time.process_time() - before) / _AT_ONCE / _STEPS


async def _run(bus: Bus, feeds: TurnFeeds) -> None:
    ref = TurnRef("bench", "stepper", new_turn_id())
    feed = feeds.open(ref, skip=not_relayed(progress=True))
    fence = await claim(bus, ref, Claimed(attempt=1, worker="bench", at=utc_now()), after=0)
    writer = TurnWriter(bus, ref, 1, fence, turn_timeout=60.0)
    model = AgentModel("caller", FunctionModel(_answer), streams=False, settings=ModelSettings())
    agent = runtime.LlmRuntime("stepper", "", "", model, False, _STEPS, {"server": _Server()})
    client = ClientContext(protocol_version="2026-07-28")
    turn = Turn(ref.turn_id, ref.team, ref.agent, "stepper", {"message": "go on"}, 1, 60.0, client)
    outcome = await agent.run_turn(turn, writer)
    assert isinstance(outcome, Completed), outcome
    feeds.close(feed)
