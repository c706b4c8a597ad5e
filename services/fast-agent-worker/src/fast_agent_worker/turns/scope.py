"""What happens in one turn, as events: steps, tools and texts of all agents that take part in it.

The hooks are those of fast-agent's tool loop. `before_tool` is the fence: it returns when the log has the starts of
all tools that are about to be called, and an attempt that was superseded raises there, so none of them is called.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from fast_agent.agents.tool_runner import ToolRunnerHooks
from mcp_types import ContentBlock

from fast_agent_worker.turns.people import Asked, question_of
from pallas_contracts.errors import Superseded
from pallas_contracts.turns import ModelCalled, Step, ToolCompleted, ToolFailed, ToolProgress, ToolStarted
from pallas_executor.agent_runtime import Emitter
from pallas_executor.teams.text import TextStream

CURRENT: ContextVar["TurnScope"] = ContextVar("the turn that runs")

_CLONE = re.compile(r"\[[^\]]*\]$")


class TooManyIterations(Exception):
    """An agent has called its model too often."""

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self.agent = agent


@dataclass(frozen=True, slots=True)
class _Open:
    """A call of a tool that has no answer yet: the model's id of it, and the loop that makes it."""

    started: ToolStarted
    call_id: str
    loop: int
    began: float


class TurnScope:
    """Belongs to one turn. `asks` is the agent that may ask a person; None: nobody can be asked.

    `may_repeat` is what the folder says of tools; `max_iterations` holds for each run of an agent.

    `lost` is set once the attempt has been superseded: fast-agent makes a tool's error of that exception.
    """

    def __init__(
        self,
        emitter: Emitter,
        *,
        asks: str | None,
        max_iterations: int,
        may_repeat: Callable[[str, str], bool | None],
    ) -> None:
        self.emitter = emitter
        self.lost: Superseded | None = None
        self.asked: Asked | None = None
        self._asks = asks
        self.too_many: TooManyIterations | None = None
        self._max_iterations = max_iterations
        self._may_repeat = may_repeat
        self._steps: Counter[str] = Counter()
        self._models, self._members = 0, 0
        self._tools: Counter[int] = Counter()
        self._began: dict[int, tuple[int, float]] = {}
        self._open: dict[str, _Open] = {}
        self._texts: dict[str, TextStream] = {}
        self._wrote: set[str] = set()

    def hooks(self) -> ToolRunnerHooks:
        """The hooks of every agent of the turn."""
        return ToolRunnerHooks(
            before_llm_call=self.before_model,
            after_llm_call=self.after_model,
            before_tool_call=self.before_tools,
            after_tool_call=self.after_tools,
        )

    def step(self, agent: str, kind: Literal["llm", "tool"]) -> None:
        """Emit the next step of an agent. Both kinds share one count."""
        self._steps[agent] += 1
        self.emitter.emit(Step(agent=agent, n=self._steps[agent], kind=kind))

    async def before_model(self, runner: Any, _messages: Any) -> None:
        """A model is about to be called."""
        self._check()
        if runner.iteration >= self._max_iterations:
            self.too_many = TooManyIterations(name_of(runner.agent))
            raise self.too_many
        self._models += 1
        self._began[id(runner)] = self._models, time.perf_counter()
        self.step(name_of(runner.agent), "llm")

    async def after_model(self, runner: Any, message: Any) -> None:
        """A model has answered."""
        number, began = self._began.get(id(runner), (self._models, time.perf_counter()))
        agent, name = runner.agent, name_of(runner.agent)
        if name not in self._wrote:
            self.write(name, message.last_text() or "")
        self._flush(name)
        tokens = _tokens(agent)
        self.emitter.emit(
            ModelCalled(
                call=str(number),
                agent=name,
                model=getattr(agent.llm, "model_name", None) or "unknown",
                duration_ms=_milliseconds(began),
                input_tokens=tokens[0],
                output_tokens=tokens[1],
            )
        )

    async def before_tools(self, runner: Any, message: Any) -> None:
        """Tools are about to be called: publish that, and wait until it is stored.

        Raises:
            Superseded: the attempt has been superseded; no tool may be called.
        """
        self._check()
        self.step(name_of(runner.agent), "tool")
        if runner.agent.name == self._asks and (question := question_of(runner.agent, message)) is not None:
            self.asked = Asked(question)
            raise self.asked
        number, _ = self._began.get(id(runner), (self._models, 0.0))
        starts = [
            (call_id, self._started(runner.agent, number, request.params.name))
            for call_id, request in (message.tool_calls or {}).items()
        ]
        try:
            await asyncio.gather(*(self._start(call_id, id(runner), started) for call_id, started in starts))
        except Superseded as error:
            self.lost = error
            raise

    async def after_tools(self, runner: Any, message: Any) -> None:
        """Tools have answered. Those that have reported their end before are left out."""
        results = message.tool_results or {}
        for call, opened in [(call, it) for call, it in self._open.items() if it.loop == id(runner)]:
            result = results.get(opened.call_id)
            self.tool_ended(call, failed=result is None or bool(result.is_error))

    def place_of(self, call_id: str | None, server: str, tool: str) -> str:
        """The place of a call that runs. The model's id is not enough: models of other agents number theirs alike."""
        names = (f"{server}/{tool}", f"{tool}/{tool}__{tool}", f"function/{tool}", f"shell/{tool}")
        for call, opened in self._open.items():
            if opened.call_id == call_id and f"{opened.started.server}/{opened.started.tool}" in names:
                return call
        return ""

    def tool_ended(self, call: str, *, failed: bool) -> None:
        """Emit the end of a call, once."""
        opened = self._open.pop(call, None)
        if opened is None:
            return
        server, tool = opened.started.server, opened.started.tool
        took = _milliseconds(opened.began)
        if failed:
            self.emitter.emit(ToolFailed(call=call, server=server, tool=tool, duration_ms=took, code="tool_error"))
        else:
            self.emitter.emit(ToolCompleted(call=call, server=server, tool=tool, duration_ms=took))

    def tool_progress(self, call: str, progress: float, total: float | None, message: str | None) -> None:
        """Relay the progress of a server's tool. That of fast-agent's own loops is left out."""
        opened = self._open.get(call)
        if opened is not None and opened.started.leaf:
            started = opened.started
            self.emitter.emit(
                ToolProgress(
                    call=started.call,
                    server=started.server,
                    tool=started.tool,
                    progress=progress,
                    total=total,
                    message=message,
                )
            )

    def write(self, agent: str, text: str) -> None:
        """Emit a piece of an agent's text."""
        if text:
            self._wrote.add(agent)
            stream = self._texts.setdefault(agent, TextStream(agent, self.emitter.emit))
            stream.add(text)

    def _flush(self, agent: str) -> None:
        self._wrote.discard(agent)
        if (stream := self._texts.get(agent)) is not None:
            stream.flush()

    def _check(self) -> None:
        if (ended := self.lost or self.asked) is not None:
            raise ended

    def _started(self, agent: Any, number: int, name: str) -> ToolStarted:
        self._tools[number] += 1
        server, tool, leaf, hinted = target_of(agent, name)
        said = self._may_repeat(server, tool)
        return ToolStarted(
            call=f"{number}.{self._tools[number]}",
            server=server,
            tool=tool,
            leaf=leaf,
            safe=leaf and (said if said is not None else hinted),
        )

    def member_started(self, workflow: str, member: str) -> str:
        """Emit that a workflow calls one of its agents; returns the id of the call."""
        self._members += 1
        call = f"w{self._members}"
        self.emitter.emit(started := ToolStarted(call=call, server=workflow, tool=member, leaf=False))
        self._open[call] = _Open(started, call, 0, time.perf_counter())
        return call

    async def _start(self, call_id: str, loop: int, started: ToolStarted) -> None:
        if started.leaf:
            await self.emitter.tool_starting(started)
        else:
            self.emitter.emit(started)
        self._open[started.call] = _Open(started, call_id, loop, time.perf_counter())


def name_of(agent: Any) -> str:
    """An agent's name, without what fast-agent adds for an instance that is called as a tool."""
    return _CLONE.sub("", agent.name)


def target_of(agent: Any, name: str) -> tuple[str, str, bool, bool]:
    """Server and tool of a name that a model has called, whether it is a leaf, and whether it says that it is safe."""
    child = getattr(agent, "_child_agents", {}).get(name)
    if child is not None:
        return child.name, f"{child.name}__{child.name}", False, False
    aggregator = getattr(agent, "_aggregator", None)
    if aggregator is not None and (found := aggregator.tool_catalog().namespaced_tool(name)) is not None:
        hints = found.tool.annotations
        safe = hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
        return aggregator.server_display_name(found.server_name), found.tool.name, True, safe
    if name.startswith("agent__"):
        return name.removeprefix("agent__"), name, False, False
    if name == "__human_input":
        return "person", name, False, False
    return "function" if name in getattr(agent, "_execution_tools", {}) else "shell", name, True, False


class Relay:
    """A `ToolExecutionHandler` of fast-agent that reports to the turn that runs. All turns share it."""

    async def on_tool_start(
        self, tool_name: str, server_name: str, arguments: dict[str, Any] | None, tool_use_id: str | None = None
    ) -> str:
        """The place of the call: the hooks have reported its start."""
        scope = CURRENT.get(None)
        return scope.place_of(tool_use_id, server_name, tool_name) if scope is not None else ""

    async def on_tool_progress(
        self, tool_call_id: str, progress: float, total: float | None, message: str | None
    ) -> None:
        """Relay it."""
        if (scope := CURRENT.get(None)) is not None:
            scope.tool_progress(tool_call_id, progress, total, message)

    async def on_tool_complete(
        self, tool_call_id: str, success: bool, content: list[ContentBlock] | None, error: str | None
    ) -> None:
        """Emit the end of the call."""
        if (scope := CURRENT.get(None)) is not None:
            scope.tool_ended(tool_call_id, failed=not success)

    async def on_tool_permission_denied(
        self, tool_name: str, server_name: str, tool_use_id: str | None, error: str | None = None
    ) -> None:
        """Nobody denies anything here."""

    async def get_tool_call_id_for_tool_use(self, tool_use_id: str) -> str | None:
        """Calls are known by the id of the model's call."""
        return tool_use_id

    async def ensure_tool_call_exists(
        self, tool_use_id: str, tool_name: str, server_name: str, arguments: dict[str, Any] | None = None
    ) -> str:
        """The hooks make it."""
        return tool_use_id


RELAY = Relay()


class WorkflowRelay(Relay):
    """The same for the steps of a workflow: which of its agents it calls."""

    def __init__(self, scope: TurnScope) -> None:
        self._scope = scope

    async def on_tool_start(
        self, tool_name: str, server_name: str, arguments: dict[str, Any] | None, tool_use_id: str | None = None
    ) -> str:
        """Emit that an agent of the workflow is called."""
        return self._scope.member_started(server_name, str((arguments or {}).get("agent") or tool_name))


def _tokens(agent: Any) -> tuple[int, int]:
    """The tokens of the last call of an agent's model, as far as its provider says them."""
    usage = getattr(agent, "usage_accumulator", None)
    turns = usage.turns if usage is not None else ()
    if not turns:
        return 0, 0
    return turns[-1].prompt.total or 0, turns[-1].completion.total or 0


def _milliseconds(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
