"""Executes turns of one data agent. Nothing of a turn is kept.

The log has the start of a call before the call is sent, so no attempt can repeat an effect unless the agent says that
its functions may be called again (`idempotent`).
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from data_pool.reaching.endpoint import CONNECT_SECONDS
from data_pool.reaching.link import BadAnswer, Broken, Link, NotSent, Reply
from pallas_contracts.agents import AgentRead, ToolDefinition
from pallas_contracts.bounds import JsonObject
from pallas_contracts.catalog import DATA_TEAM
from pallas_contracts.data_agents import RPC_ERROR, WRAPPED, DataAgent
from pallas_contracts.errors import NotFound, PallasError
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Result, ToolCompleted, ToolFailed, ToolStarted
from pallas_jsonrpc.messages import RpcError
from pallas_schemas.schema import Schema
from pallas_turns.events import Emitter
from pallas_turns.runtime import Completed, Failed, Outcome, Steps, Turn

_PAUSE = 0.2
"""Seconds between two attempts to reach an agent."""

_TO_SEND = 0.8
"""The share of a turn's time after which nothing is sent: why not must be said before the time is over."""
_STEPS = 3
"""What comes one after the other before a call is sent: the name, the connection, TLS."""

_ONLY_CALL = "1"
"""A turn makes one call."""


@dataclass(frozen=True, slots=True)
class UnreachableRuntime:
    """Ends the turns of an agent that cannot be reached."""

    why: str
    retryable: bool

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """End the turn."""
        return Failed("agent_unreachable", self.why, retryable=self.retryable)

    async def read(self, question: AgentRead) -> JsonObject:
        """A data agent has nothing to read."""
        raise NotFound(f"agent {question.agent!r} has no prompts and resources")


@dataclass(frozen=True, slots=True)
class DataRuntime:
    """Calls one agent. `find` returns how, None while there is no way; a turn waits `patience` seconds for one.

    `reached(agent, problem)` is told how each call went: why the agent could not be reached, or None.
    """

    entry: DataAgent
    find: Callable[[str], Link | None]
    patience: float
    reached: Callable[[str, str | None], None]
    _schemas: dict[str, Schema] = field(default_factory=dict[str, Schema], compare=False)

    async def schema(self, tool: ToolDefinition) -> Schema:
        """The schema of a tool's answers, compiled once."""
        if tool.name not in self._schemas:
            owner = f"{DATA_TEAM}/{self.entry.agent}"
            self._schemas[tool.name] = await Schema.compiled(tool.output_schema or {}, owner)
        return self._schemas[tool.name]

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt (see `AgentRuntime`)."""
        tool = self.entry.definition.tool(turn.tool)
        if tool is None:
            return Failed("invalid_arguments", f"The agent {turn.agent!r} has no function {turn.tool!r}.")
        if turn.model is not None:
            return Failed("unknown_model", f"The agent {turn.agent!r} has no model that another could stand in for.")
        return await _Attempt(self, turn, tool, Steps(turn, emit), emit).run()

    async def read(self, question: AgentRead) -> JsonObject:
        """A data agent has nothing to read."""
        raise NotFound(f"agent {question.agent!r} has no prompts and resources")


@dataclass(slots=True)
class _Attempt:
    runtime: DataRuntime
    turn: Turn
    tool: ToolDefinition
    steps: Steps
    emit: Emitter
    ends: float = field(init=False)
    send_by: float = field(init=False)

    def __post_init__(self) -> None:
        now, remaining = time.monotonic(), self.turn.remaining
        self.ends, self.send_by = now + remaining, now + _TO_SEND * remaining

    @property
    def _safe(self) -> bool:
        return self.runtime.entry.definition.retry == "safe"

    async def run(self) -> Outcome:
        """Call the agent. A call that was not sent is made again for a while, a repeatable one while time is left."""
        give_up = time.monotonic() + self.runtime.patience
        while True:
            async with self.steps.under_way(safe=True):  # a turn whose call has not begun is given back by a drain
                link = self.runtime.find(self.turn.agent)
            why = f"The agent {self.turn.agent!r} is not connected."
            try:
                if link is not None:
                    return await self._call(link)
            except NotSent as error:
                why = f"The agent {self.turn.agent!r} cannot be reached: {error}."
                self.runtime.reached(self.turn.agent, str(error))
            except Broken:
                if not self._safe:
                    return Failed(
                        "agent_unreachable",
                        f"The connection to the agent {self.turn.agent!r} broke during the call; whether it took "
                        "effect is unknown. Check before you retry.",
                    )
                give_up = time.monotonic() + self.runtime.patience
            except BadAnswer as error:
                return invalid_answer(str(error))
            if time.monotonic() + _PAUSE > min(give_up, self.send_by):
                return Failed("agent_unreachable", why, retryable=True)
            await asyncio.sleep(_PAUSE)

    async def _call(self, link: Link) -> Outcome:
        agent, tool = self.turn.agent, self.tool.name
        async with self.steps.under_way(safe=self._safe), link.reserved():
            await self.steps.tool_starting(ToolStarted(call=_ONLY_CALL, server=agent, tool=tool, safe=self._safe))
            began = time.perf_counter()
            try:
                connect = min(CONNECT_SECONDS, max(_PAUSE, (self.send_by - time.monotonic()) / _STEPS))
                reply = await link.call(self._params(), connect)
            except (NotSent, Broken, BadAnswer) as error:
                self._failed(began, "invalid_answer" if isinstance(error, BadAnswer) else "agent_unreachable")
                raise
            self.runtime.reached(agent, None)
            outcome = await self._outcome_of(reply)
            if isinstance(outcome, Failed):
                self._failed(began, outcome.code)
            elif reply.error is not None:
                self._failed(began, "tool_error")
            else:
                took = _since(began)
                self.emit.emit(ToolCompleted(call=_ONLY_CALL, server=agent, tool=tool, duration_ms=took))
            return outcome

    async def _outcome_of(self, reply: Reply) -> Outcome:
        try:
            return await outcome_of(reply, await self.runtime.schema(self.tool), wrapped=self.tool.meta == WRAPPED)
        except PallasError as error:
            return invalid_answer(f"it cannot be checked: {error.message}")

    def _failed(self, began: float, code: str) -> None:
        agent, tool, took = self.turn.agent, self.tool.name, _since(began)
        self.emit.emit(ToolFailed(call=_ONLY_CALL, server=agent, tool=tool, duration_ms=took, code=code))

    def _params(self) -> JsonObject:
        """The params of `agent.execute` (`data-agent-pool.md`, section 3.1)."""
        turn = self.turn
        meta = {
            "task_id": turn.task or turn.turn_id,
            "timestamp": utc_now().isoformat(),
            "turn_id": turn.turn_id,
            "attempt": turn.attempt,
            "timeout": round(max(0.0, self.ends - time.monotonic()), 3),
        }
        return {"agent_id": turn.agent, "function": self.tool.name, "input": turn.arguments, "meta": meta}


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)


_MOST_FAULTS = 5


async def outcome_of(reply: Reply, schema: Schema, *, wrapped: bool) -> Outcome:
    """How the turn ends. With `wrapped`, callers over MCP get the answer as `{"result": answer}`.

    Raises:
        Unavailable: the answer cannot be checked now.
    """
    if reply.error is not None:
        return Completed(_error(reply.error))
    value = reply.value
    given = reply.content != () and isinstance(value, dict) and value.keys() == {"result"}
    structured = value if not wrapped or given else {"result": value}
    if not isinstance(structured, dict):
        return invalid_answer("it must be an object")
    if faults := await schema.faults(structured):
        return invalid_answer("it does not fit its schema: " + "; ".join(faults[:_MOST_FAULTS]))
    text = {"type": "text", "text": json.dumps(value, ensure_ascii=False)}
    return Completed(Result(content=reply.content or (text,), structured=structured))


def invalid_answer(reason: str) -> Failed:
    """The failure of a turn whose answer is malformed."""
    return Failed("invalid_answer", f"The agent's answer cannot be used: {reason}.")


def _error(error: RpcError) -> Result:
    return Result(content=({"type": "text", "text": error.message},), is_error=True, meta={RPC_ERROR: error.wire})
