"""What can be called: definitions of agents, and the presence of workers and gateways.

A definition is all that gateway and registry know about an agent: its tools, prompts and resources with their schemas.
It does not say how they are executed, so callers see no difference between kinds of agents.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from pallas_contracts.bounds import (
    FEW,
    MANY,
    BoundedObject,
    Count,
    Line,
    Moment,
    Name,
    PerSecond,
    Port,
    Seconds,
    Text,
    Url,
    line,
    reason_of,
)
from pallas_contracts.costs import TeamBudget
from pallas_contracts.ids import Token
from pallas_contracts.message import Message
from pallas_contracts.shapes import AnnotationsObject, ArgumentObject, IconObject, MessageObject, SchemaObject
from pallas_contracts.turns import TURN_STATUSES, Principal, TurnStatus

type JsonObject = dict[str, Any]

LARGEST_DEFINITION = 1_048_576
"""Bytes of a definition as JSON."""


class ToolDefinition(Message):
    """One callable of an agent. Schemas are JSON Schema 2020-12, of objects.

    `aliases` are further names a caller may use; they are not listed. `correlation` names the argument that a caller
    uses for trace correlation: it is logged, never interpreted. `annotations`, `meta` and `icons` are passed to the
    caller as MCP has them. A tool that `checks_arguments` itself gets them as they are, and refuses them in its words.
    """

    name: Name
    title: Line | None = None
    description: Text = ""
    input_schema: SchemaObject = Field(default_factory=lambda: {"type": "object"})
    output_schema: SchemaObject | None = None
    annotations: AnnotationsObject | None = None
    meta: BoundedObject | None = None
    icons: tuple[IconObject, ...] = Field(default=(), max_length=FEW)
    aliases: tuple[Name, ...] = Field(default=(), max_length=FEW)
    correlation: Name | None = None
    checks_arguments: bool = False


class PromptDefinition(Message):
    """A prompt as MCP lists it. With `messages` (also empty) no worker is asked for it."""

    name: Name
    title: Line | None = None
    description: Text | None = None
    arguments: tuple[ArgumentObject, ...] = Field(default=(), max_length=FEW)
    messages: tuple[MessageObject, ...] | None = Field(default=None, max_length=MANY)


class ResourceDefinition(Message):
    """A resource or, when `template` is set, a resource template (`uri` is then an RFC 6570 template)."""

    uri: Url
    name: Name
    title: Line | None = None
    description: Text | None = None
    mime_type: Line | None = None
    template: bool = False


class Capabilities(Message):
    """What the agent's model can do (interface contract section 1, `capabilities`). Sizes are in tokens."""

    model: Name
    vision: bool = False
    context_window: Count | None = None
    max_output_tokens: Count | None = None


class Icon(Message):
    """An icon as the registry lists it; `src` may be relative."""

    src: Url
    sizes: tuple[Line, ...] = Field(default=(), max_length=FEW)
    mime_type: Line | None = None


class Dependency(Message):
    """A downstream MCP server that an agent needs.

    `key` is a digest of address and credential: agents with the same key share one probe and one pooled connection.
    """

    name: Name
    key: Token
    transport: Literal["http", "stdio"]


class ModelDependency(Message):
    """The model provider an agent needs; `key` as in `Dependency`, over provider, base address and credential."""

    provider: Name
    model: Name
    key: Token


class Limits(Message):
    """How much of the platform turns of this agent may use. Times are seconds, rates turns per second.

    `max_queued` turns may wait, half of them of one caller. `budget` is that of the whole team.
    `keep` is how long content is kept after a turn's end, by how it ended; a status that is left out: as long as the
    executor's setting says.
    """

    turn_timeout: Seconds = 600.0
    queue_timeout: Seconds = 120.0
    max_concurrency: Count | None = None
    max_queued: Count = 1000
    max_attempts: Count = 3
    max_rate: PerSecond | None = None
    max_rate_per_caller: PerSecond | None = None
    budget: TeamBudget | None = None
    keep: dict[TurnStatus, Seconds] = Field(default_factory=dict[TurnStatus, Seconds], max_length=FEW)

    def keeping(self, otherwise: float) -> dict[TurnStatus, float]:
        """Seconds for which content of a turn is kept, by how it ended, if the executor's setting is `otherwise`."""
        return dict.fromkeys(TURN_STATUSES, otherwise) | self.keep


class Allow(Message):
    """Who may use an agent: a caller of one of these types, one of these teams, or one of these opaque tokens, by id.

    If it is empty, nobody may. It has ids, because names are neither unique nor permanent.
    """

    types: tuple[Name, ...] = Field(default=(), max_length=FEW)
    teams: tuple[Name, ...] = Field(default=(), max_length=MANY)
    tokens: tuple[Name, ...] = Field(default=(), max_length=MANY)

    def has(self, caller: Principal) -> bool:
        """Whether a caller is in it."""
        return caller.type in self.types or (
            (caller.type == "team" and caller.id in self.teams) or (caller.type == "token" and caller.id in self.tokens)
        )


class AgentDefinition(Message):
    """Everything callable of one agent (KV bucket `agents`, key `{team}.{agent}`).

    `kind` is informative. `revision` is a digest of the definition without `updated_at`, which therefore only moves
    when the agent really changed. `retry` says whether its tools may be called again. Without
    `allow` every caller whom the gateway serves may use it. `announces`: changes of its resources are announced
    (`resource.changed`), so callers may subscribe to them. `facts` are published for people and programs (of a data
    agent: its resources, constraints and heartbeat interval). `unusable` is why the agent cannot be called: readers set
    it when they cannot read the entry in the bucket, and workers when a definition breaks a bound. An `entry` is the
    agent to begin with, and `starters` are messages to try it with.
    """

    team: Token
    agent: Token
    team_id: Name | None = None
    kind: Name = "llm"
    namespace: Name = "local.pallas"
    title: Line
    description: Text = ""
    version: Line = "0.0.0"
    icons: tuple[Icon, ...] = Field(default=(), max_length=FEW)
    port: Port | None = None
    capabilities: Capabilities | None = None
    tools: tuple[ToolDefinition, ...] = Field(default=(), max_length=MANY)
    prompts: tuple[PromptDefinition, ...] = Field(default=(), max_length=MANY)
    resources: tuple[ResourceDefinition, ...] = Field(default=(), max_length=MANY)
    completes: bool = False
    announces: bool = False
    agents: tuple[Token, ...] = Field(default=(), max_length=MANY)
    dependencies: tuple[Dependency, ...] = Field(default=(), max_length=MANY)
    model: ModelDependency | None = None
    limits: Limits = Limits()
    retry: Literal["unsafe", "safe"] = "unsafe"
    allow: Allow | None = None
    facts: BoundedObject | None = None
    entry: bool = False
    starters: tuple[Line, ...] = Field(default=(), max_length=FEW)
    unusable: Line | None = None
    revision: Line = ""
    updated_at: Moment

    @model_validator(mode="after")
    def _tools_have_names_of_their_own(self) -> Self:
        names = Counter(tool.name for tool in self.tools)
        if len(names) < len(self.tools):
            raise ValueError(f"two tools are called {names.most_common(1)[0][0]!r}")
        return self

    def tool(self, name: str) -> ToolDefinition | None:
        """Return the tool of that name or alias, or None."""
        for tool in self.tools:
            if name == tool.name or name in tool.aliases:
                return tool
        return None

    @property
    def hidden(self) -> bool:
        """Whether nobody may use it, so it is in no list: only the service that executes it makes its turns."""
        return self.allow == Allow()

    def allows(self, caller: Principal) -> bool:
        """Whether a caller may use the agent: there is no `allow` list, or the list has the caller."""
        return self.allow is None or self.allow.has(caller)


def unusable(team: str, agent: str, reason: str) -> AgentDefinition:
    """The replacement of a definition that cannot be used: only the agent's name and the reason."""
    never = datetime.fromtimestamp(0, UTC)
    return AgentDefinition(team=team, agent=agent, title=agent, unusable=line(reason), updated_at=never)


def read_definition(ids: Mapping[str, str], data: bytes) -> AgentDefinition:
    """The definition under a key of the bucket; an `unusable` one if it cannot be used.

    Raises:
        ValidationError: the key's ids are not tokens.
    """
    if len(data) > LARGEST_DEFINITION:
        return unusable(**ids, reason=f"it is larger than {LARGEST_DEFINITION} bytes")
    try:
        definition = AgentDefinition.model_validate_json(data)
    except ValidationError as error:
        return unusable(**ids, reason=reason_of(error))
    if (definition.team, definition.agent) != (ids["team"], ids["agent"]):
        return unusable(**ids, reason="it is of another agent than its key")
    return definition


class Trouble(Message):
    """What is wrong with an agent that has started, as its worker knows it."""

    status: Literal["degraded", "error"]
    reason: Line


class WorkerPresence(Message):
    """The presence of a worker (KV bucket `workers`, key `{worker}`). It expires `PRESENCE_TTL` after its last write.

    `agents` are the `{team}.{agent}` that it can execute; `failed` maps an agent that could not be started to the
    reason; `troubles` has agents that have started and are not well; `stdio` maps the key of a stdio dependency to None
    when it answers, else to what is wrong with it. `held` is why it takes no turns, None if it does.
    """

    worker: Token
    slots: int
    busy: int = 0
    agents: tuple[str, ...] = ()
    failed: dict[Name, Line] = Field(default_factory=dict[str, str], max_length=MANY)
    troubles: dict[Name, Trouble] = Field(default_factory=dict[str, Trouble], max_length=MANY)
    stdio: dict[Name, Line | None] = Field(default_factory=dict[str, str | None], max_length=MANY)
    held: Line | None = None
    at: datetime


class WorkerAlive(Message):
    """A heartbeat of a worker's process, sent several times a second, so that a lost worker is noticed quickly."""

    worker: Token


class ResourceChanged(Message):
    """A resource of an agent may read differently now. Who was told reads it again; the change itself is not told."""

    team: Token
    agent: Token
    uri: Url


class GatewayPresence(Message):
    """The presence of a gateway (KV bucket `gateways`, key `{gateway}`). `ports`: bound port by `{team}.{agent}`."""

    gateway: Token
    url: str
    host: str
    ports: dict[str, int] = Field(default_factory=dict[str, int])
    at: datetime


class AgentRead(Message):
    """A read that only a worker of the agent can answer: a prompt, a resource or a completion.

    `params` and the answer are the MCP params and result of `method`; `principal` is who reads.
    """

    team: Token
    agent: Token
    method: Literal["prompts/get", "resources/read", "completion/complete"]
    params: JsonObject
    principal: Principal = Principal()


class AgentReadAnswer(Message):
    """The MCP result of an `AgentRead`."""

    result: JsonObject
