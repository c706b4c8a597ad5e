"""The tools of one run of an agent: those of its downstream servers and its sub-agents.

They belong to one run and hold its scope; the servers are pooled and shared. The model gets the error of a tool;
only a superseded attempt (`Superseded`) ends the run.
"""

import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from pydantic_ai.exceptions import ToolFailed as ToolFailedForModel
from pydantic_ai.messages import BinaryContent
from pydantic_ai.tools import ToolDefinition

from agent_worker.downstream.calls import CallFailed, MayRepeat, call_tool, is_safe
from agent_worker.downstream.server import DownstreamServer
from agent_worker.llm.failures import RunFailed
from agent_worker.llm.results import model_content, result_text
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import ToolCompleted, ToolFailed, ToolStarted
from pallas_hosting.definition import TurnScope

if TYPE_CHECKING:
    from mcp_types import Tool

log = logging.getLogger(__name__)

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME, _DIGEST = 64, 8
_ASK_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "What the agent is asked to do, with all it needs"}},
    "required": ["message"],
    "additionalProperties": False,
}

type AskAgent = Callable[[str, str], Awaitable[str]]
"""Runs a sub-agent with a message, at a place in the turn, and returns its answer."""

_UNKNOWN = (
    "The tool had started when the worker was lost. Whether it took effect is unknown. It has not been called again; "
    "check before you do."
)


@dataclass(frozen=True, slots=True)
class SubAgent:
    """An agent that another agent can call as a tool; `ask` runs it in the same turn."""

    name: str
    description: str
    ask: AskAgent


@dataclass(frozen=True, slots=True)
class _Bound:
    """The implementation of a tool: exactly one of `server` and `agent`. One that is `safe` may be called again."""

    definition: ToolDefinition
    server_name: str
    tool_name: str
    server: DownstreamServer | None = None
    agent: SubAgent | None = None
    safe: bool = False


class AgentTools:
    """All tools of one run. Names are `{server}__{tool}`; a sub-agent's is `{name}__{name}`.

    `may_repeat` says which of them may be called again after a worker was lost.
    """

    def __init__(
        self,
        scope: TurnScope,
        servers: Mapping[str, DownstreamServer],
        agents: Iterable[SubAgent],
        *,
        vision: bool,
        may_repeat: MayRepeat,
        tell_model: bool,
    ) -> None:
        self._scope = scope
        self._servers = servers
        self._agents = tuple(agents)
        self._vision = vision
        self._may_repeat = may_repeat
        self._tell_model = tell_model
        self._bound: dict[str, _Bound] | None = None

    async def definitions(self) -> list[ToolDefinition]:
        """List the tools once per run, without those of a server that was never reachable."""
        if self._bound is None:
            self._bound = await self._bind()
        return [bound.definition for bound in self._bound.values()]

    @property
    def names(self) -> Collection[str]:
        """The tools that the model was offered."""
        return self._bound or ()

    def under_way(self, name: str) -> AbstractAsyncContextManager[None]:
        """Call a tool inside the block. A sub-agent makes steps of its own, between which the turn can stop."""
        leaf = (self._bound or {})[name].server is not None
        return self._scope.steps.under_way() if leaf else nullcontext()

    async def call(self, call: str, name: str, arguments: JsonObject) -> str | list[str | BinaryContent]:
        """Call a tool, emit its events, and return its result for the model. `call` names the call in the turn.

        Raises:
            Superseded: the attempt has been superseded; the tool has not been called.
            ToolFailedForModel: the tool failed; the text is for the model.
        """
        bound = (self._bound or {})[name]
        leaf = bound.server is not None
        started = ToolStarted(
            call=call,
            server=bound.server_name,
            tool=bound.tool_name,
            leaf=leaf,
            safe=bound.safe,
            tell_model=self._tell_model,
        )
        began = time.perf_counter()
        if self._scope.steps.is_unknown(call):
            self._fail(bound, call, began, "outcome_unknown", _UNKNOWN)
        if bound.server is not None:
            await self._scope.steps.tool_starting(started)
            answer = await self._call_server(bound, bound.server, started, arguments, began)
        else:
            self._scope.emit(started)
            answer = await self._ask_agent(bound, call, arguments, began)
        took = _milliseconds(began)
        self._scope.emit(ToolCompleted(call=call, server=bound.server_name, tool=bound.tool_name, duration_ms=took))
        return answer

    async def _call_server(
        self, bound: _Bound, server: DownstreamServer, started: ToolStarted, arguments: JsonObject, began: float
    ) -> str | list[str | BinaryContent]:
        call = started.call
        try:
            result = await call_tool(server, started, arguments, self._scope.emitter)
            content = "" if result.is_error else model_content(result, vision=self._vision)
        except CallFailed as error:
            self._fail(bound, call, began, error.code, error.message)
        if result.is_error:
            self._fail(bound, call, began, "tool_error", result_text(result))
        return content

    async def _ask_agent(self, bound: _Bound, call: str, arguments: JsonObject, began: float) -> str:
        assert bound.agent is not None
        message = arguments.get("message")
        if not isinstance(message, str):
            self._fail(bound, call, began, "tool_error", "'message' must be a string")
        try:
            return await bound.agent.ask(message, f"{call}.")
        except RunFailed as error:
            self._fail(bound, call, began, error.failed.code, error.failed.message)

    def _fail(self, bound: _Bound, call: str, began: float, code: str, text: str) -> NoReturn:
        self._scope.emit(
            ToolFailed(
                call=call,
                server=bound.server_name,
                tool=bound.tool_name,
                duration_ms=_milliseconds(began),
                code=code,
            )
        )
        raise ToolFailedForModel(text)

    async def _bind(self) -> dict[str, _Bound]:
        names = _Names()
        tools = [(name, server, tool) for name, server in self._servers.items() for tool in await _listed(name, server)]
        names.keep(f"{name}__{tool.name}" for name, _, tool in tools)
        found: dict[str, _Bound] = {}
        for name, server, tool in tools:
            safe = is_safe(name, tool, self._may_repeat)
            definition = _server_tool(names.take(f"{name}__{tool.name}", f"{name}/{tool.name}"), tool)
            found[definition.name] = _Bound(definition, name, tool.name, server=server, safe=safe)
        for agent in self._agents:
            bare = f"{agent.name}__{agent.name}"
            definition = _definition(names.take(bare, agent.name), agent.description, _ASK_SCHEMA)
            found[definition.name] = _Bound(definition, agent.name, bare, agent=agent)
        return found


async def _listed(name: str, server: DownstreamServer) -> "list[Tool]":
    try:
        return await server.tools()
    except Unavailable as error:
        log.warning("agent runs without a server's tools", extra={"server": name, "reason": error.message})
        return []


class _Names:
    """The names of tools for a model. Providers allow fewer and other characters than MCP, so two may become one."""

    def __init__(self) -> None:
        self._kept = set[str]()
        self._taken = set[str]()

    def keep(self, names: Iterable[str]) -> None:
        """Keep the names that need no change for the tools that have them."""
        self._kept |= {name for name in names if _usable(name) == name}

    def take(self, name: str, whose: str) -> str:
        """A name that no other tool has: with a digest of `whose` at its end where it would be another's."""
        usable = _usable(name)
        if usable in self._taken or (usable != name and usable in self._kept):
            digest = hashlib.sha256(whose.encode()).hexdigest()[:_DIGEST]
            usable = f"{usable[: _LONGEST_NAME - _DIGEST - 1]}_{digest}"
        self._taken.add(usable)
        return usable


def _usable(name: str) -> str:
    return _ILLEGAL.sub("_", name)[:_LONGEST_NAME]


def _server_tool(name: str, tool: "Tool") -> ToolDefinition:
    return _definition(name, tool.description or tool.title or "", tool.input_schema)


def _definition(name: str, description: str, schema: JsonObject) -> ToolDefinition:
    return ToolDefinition(name=name, description=description, parameters_json_schema=schema)


def _milliseconds(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
