"""The definitions of the agents of a folder; what an attempt has of its turn and has spent; text as it is streamed.

One with a model has one tool, named after it, and a history prompt that is always empty.

This module imports no LLM library.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pallas_contracts.agents import AgentDefinition, JsonObject, PromptDefinition, ToolDefinition, read_definition
from pallas_contracts.bounds import line
from pallas_contracts.costs import Cost
from pallas_contracts.errors import Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.turns import KnownEvent, ModelCalled, Step, TextDelta
from pallas_contracts.valid import valid_text
from pallas_schemas.schema import check_definition
from pallas_teams import AgentConfig, TeamFolder
from pallas_turns.events import Emitter
from pallas_turns.runtime import Failed, Steps

LARGEST_TEAM = 32 * 1024 * 1024
"""Bytes of the definitions of a team. Every gateway, the registry and the monitor keep those of all teams."""

_IMAGE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "data": {"type": "string", "description": "Base64"},
        "mime_type": {"type": "string", "description": "For example image/png"},
    },
    "required": ["data", "mime_type"],
}

INPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "The new user turn as plain text"},
        "images": {
            "type": "array",
            "items": _IMAGE_SCHEMA,
            "description": "Images of this turn only; needs a model with vision",
        },
        # Items of any type: an invalid row is skipped with a warning instead of failing the call.
        "history": {
            "type": "array",
            "description": "The conversation so far, oldest first: {role: user|assistant, content, images?}",
        },
        "conversation_id": {"type": "string", "description": "Opaque; logged for trace correlation"},
    },
    "required": ["message"],
    "additionalProperties": False,
}


def agent_tool(agent: AgentConfig) -> ToolDefinition:
    """The tool that talks to the agent."""
    return ToolDefinition(
        name=agent.name,
        title=agent.title,
        description=agent.description,
        input_schema=INPUT_SCHEMA,
        aliases=("send_message",),
        correlation="conversation_id",
    )


def with_ours(schema: JsonObject) -> JsonObject:
    """The schema of an agent that has one of its own, with those of our optional arguments that it does not define."""
    return {**schema, "properties": {**_ours(schema), **(schema.get("properties") or {})}}


def split_ours(arguments: JsonObject, schema: JsonObject) -> tuple[JsonObject, JsonObject]:
    """The arguments of an agent's own schema, and those that are ours."""
    ours = _ours(schema)
    return (
        {name: value for name, value in arguments.items() if name not in ours},
        {name: value for name, value in arguments.items() if name in ours},
    )


def _ours(schema: JsonObject) -> Mapping[str, Any]:
    own: Mapping[str, Any] = schema.get("properties") or {}
    return {name: each for name, each in INPUT_SCHEMA["properties"].items() if name not in {"message", *own}}


def history_prompt(agent: AgentConfig) -> PromptDefinition:
    """The prompt with which older clients read the history. It is empty, because callers keep the history."""
    return PromptDefinition(
        name=f"{agent.name}_history",
        title=line(f"{agent.title} history"),
        description="Always empty: the caller owns the conversation",
        messages=(),
    )


def define_with_model(folder: TeamFolder, agent: AgentConfig) -> AgentDefinition:
    """The same of an agent with a model, with its tool and its prompt."""
    update = {"tools": (agent_tool(agent),), "prompts": (history_prompt(agent),)}
    return define(folder, agent).model_copy(update=update)


async def check_agent(definition: AgentDefinition, beside: int = 0) -> int:
    """Read a definition as everybody else will, and return its bytes. Those of the team's other agents are `beside`.

    Raises:
        Rejected: it cannot be used.
        Unavailable: its schemas cannot be checked now.
    """
    ids = {"team": definition.team, "agent": definition.agent}
    data = definition.model_dump_json().encode()
    if beside + len(data) > LARGEST_TEAM:
        raise Rejected(f"its definition cannot be used: with it, the team's are larger than {LARGEST_TEAM} bytes")
    read = read_definition(ids, data)
    if read.unusable is not None:
        raise Rejected(f"its definition cannot be used: {read.unusable}")
    await check_definition(read)
    return len(data)


def define(folder: TeamFolder, agent: AgentConfig) -> AgentDefinition:
    """What the folder says of an agent, without its tools."""
    return AgentDefinition(
        team=folder.name,
        agent=agent.name,
        team_id=folder.team_id,
        kind=agent.kind,
        namespace=folder.namespace,
        title=agent.title,
        description=agent.description,
        version=agent.version,
        icons=(agent.icon,) if agent.icon else (),
        port=agent.port,
        capabilities=folder.capabilities(agent),
        agents=agent.depends_on,
        dependencies=folder.dependencies(agent),
        model=folder.model_dependency(agent),
        limits=agent.limits,
        retry=agent.retry,
        allow=agent.allow,
        entry=folder.is_entry(agent),
        starters=agent.starters,
        updated_at=utc_now(),
    )


@dataclass(slots=True)
class TurnScope:
    """Belongs to one attempt; sub-agents share the scope of their caller."""

    emitter: Emitter
    steps: Steps
    _counts: Counter[str] = field(default_factory=Counter[str])
    _spent: Counter[str] = field(default_factory=Counter[str])
    """Tokens under the empty name, and nanos by currency."""

    def emit(self, event: KnownEvent) -> None:
        """Emit an event."""
        self.emitter.emit(event)

    @property
    def caller(self) -> str:
        """The principal of the turn as `type:id`."""
        return self.steps.turn.principal.label

    def model_called(self, event: ModelCalled) -> None:
        """Emit that a model answered, and count what it cost."""
        self._spent[""] += event.input_tokens + event.output_tokens
        if event.cost is not None:
            self._spent[event.cost.currency] += event.cost.nanos
        self.emitter.emit(event)

    def exhausted(self) -> Failed | None:
        """Why no model may be called any more: this attempt has used up what was left of the budgets. None: one may."""
        allowed = self.steps.turn.allowance
        if allowed is None:
            return None
        if allowed.tokens is not None and self._spent[""] >= allowed.tokens:
            return _exhausted(f"{self._spent['']} tokens", f"{allowed.tokens} tokens")
        for most in allowed.money:
            if (spent := self._spent[most.currency]) >= most.nanos:
                return _exhausted(str(Cost(nanos=spent, currency=most.currency)), str(most))
        return None

    def step(self, agent: str, kind: Literal["llm", "tool"]) -> None:
        """Emit the next step of an agent. Both kinds share one count, over all runs of the agent in this turn."""
        self.step_taken_over(agent)
        self.steps.begin(self._counts[agent])
        self.emitter.emit(Step(agent=agent, n=self._counts[agent], kind=kind))

    def step_taken_over(self, agent: str) -> None:
        """Count a step that an earlier attempt has made."""
        self._counts[agent] += 1


def _exhausted(spent: str, left: str) -> Failed:
    text = f"The turn has used {spent}; when it was accepted, {left} were left of a budget for the day."
    return Failed("budget_exhausted", text)


_MAX_DELAY = 0.2
_MAX_CHARACTERS = 400


class TextStream:
    """Buffers the pieces of one answer until there are 400 characters or 0.2 s have passed."""

    def __init__(self, agent: str, emit: Callable[[TextDelta], None]) -> None:
        self._agent = agent
        self._emit = emit
        self._pieces: list[str] = []
        self._length = 0
        self._since = time.monotonic()

    def add(self, piece: str) -> None:
        """Add a piece; emit the buffer when it is full or old enough."""
        if not piece:
            return
        if not self._pieces:
            self._since = time.monotonic()
        self._pieces.append(piece)
        self._length += len(piece)
        half = "\ud800" <= piece[-1] <= "\udbff"  # the other half of the character is in the next piece
        if not half and (self._length >= _MAX_CHARACTERS or time.monotonic() - self._since >= _MAX_DELAY):
            self.flush()

    def flush(self) -> None:
        """Emit the buffer."""
        if self._pieces:
            self._emit(TextDelta(agent=self._agent, text=valid_text("".join(self._pieces))))
            self._pieces.clear()
            self._length = 0
