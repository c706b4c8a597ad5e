"""What can be called: an agent's definition, and who is alive to execute it.

A definition is all the gateway and the registry know about an agent. It names tools, prompts and resources with their
schemas and says nothing of how they are executed, so every kind of agent looks the same from the front.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from pallas_contracts.ids import Token
from pallas_contracts.message import Message

type JsonObject = dict[str, Any]


class ToolDefinition(Message):
    """One callable of an agent. Schemas are JSON Schema 2020-12.

    `aliases` are further names a caller may use; they are not listed. `correlation` names the argument that a caller
    uses for trace correlation: it is logged, never interpreted. `annotations`, `meta` and `icons` are passed to the
    caller as MCP has them.
    """

    name: str
    title: str | None = None
    description: str = ""
    input_schema: JsonObject = Field(default_factory=lambda: {"type": "object"})
    output_schema: JsonObject | None = None
    annotations: JsonObject | None = None
    meta: JsonObject | None = None
    icons: tuple[JsonObject, ...] = ()
    aliases: tuple[str, ...] = ()
    correlation: str | None = None


class PromptDefinition(Message):
    """A prompt as MCP lists it. `messages` answers it without asking the owner (an empty tuple is an answer)."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[JsonObject, ...] = ()
    messages: tuple[JsonObject, ...] | None = None


class ResourceDefinition(Message):
    """A resource or, when `template` is set, a resource template (`uri` is then an RFC 6570 template)."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    template: bool = False


class Capabilities(Message):
    """What the agent's model can do (interface contract section 1, `capabilities`)."""

    model: str
    vision: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None


class Icon(Message):
    """An icon as the registry lists it; `src` may be relative."""

    src: str
    sizes: tuple[str, ...] = ()
    mime_type: str | None = None


class Dependency(Message):
    """A downstream MCP server an agent needs.

    `key` is a digest of address and credential: agents that share it share one probe and one pooled connection, and
    nothing of either can be read back from it.
    """

    name: str
    key: str
    transport: Literal["http", "stdio"]


class ModelDependency(Message):
    """The model provider an agent needs; `key` as in `Dependency`, over provider, base address and credential."""

    provider: str
    model: str
    key: str


class Limits(Message):
    """How much of the platform turns of this agent may use. Times are seconds, rates turns per second.

    `max_queued` turns may wait, half of them of one caller. `grace` is how long a turn goes on without its caller when
    that had sent an idempotency key.
    """

    turn_timeout: float = 600.0
    queue_timeout: float = 120.0
    max_concurrency: int | None = None
    max_queued: int = 1000
    max_attempts: int = 3
    max_rate: float | None = None
    max_rate_per_caller: float | None = None
    grace: float = 30.0


class Allow(Message):
    """Who may use an agent: a caller of one of these types, one of these teams, or one of these opaque tokens, by id.

    With nothing in it nobody may. Ids, because names are neither unique nor fixed.
    """

    types: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()


class AgentDefinition(Message):
    """Everything callable of one agent (KV bucket `agents`, key `{team}.{agent}`).

    `kind` is informative. `revision` is a digest of the definition without `updated_at`, which therefore only moves
    when the agent really changed. `retry` says whether a turn may be executed again after a tool had started. Without
    `allow` every caller whom the gateway serves may use it.
    """

    team: Token
    agent: Token
    team_id: str | None = None
    kind: str = "llm"
    namespace: str = "local.pallas"
    title: str
    description: str = ""
    version: str = "0.0.0"
    icons: tuple[Icon, ...] = ()
    port: int | None = None
    capabilities: Capabilities | None = None
    tools: tuple[ToolDefinition, ...] = ()
    prompts: tuple[PromptDefinition, ...] = ()
    resources: tuple[ResourceDefinition, ...] = ()
    completes: bool = False
    agents: tuple[Token, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    model: ModelDependency | None = None
    limits: Limits = Limits()
    retry: Literal["unsafe", "safe"] = "unsafe"
    allow: Allow | None = None
    revision: str = ""
    updated_at: datetime

    def tool(self, name: str) -> ToolDefinition | None:
        """Return the tool of that name or alias, or None."""
        return next((tool for tool in self.tools if name == tool.name or name in tool.aliases), None)


class WorkerPresence(Message):
    """A living worker and what it hosts (KV bucket `workers`, key `{worker}`, gone `PRESENCE_TTL` after the last beat).

    `agents` are `{team}.{agent}`; `failed` maps an agent that could not be started to the reason; `stdio` maps the key
    of a stdio dependency to None when it answers, else to what is wrong with it.
    """

    worker: Token
    slots: int
    busy: int = 0
    agents: tuple[str, ...] = ()
    failed: dict[str, str] = Field(default_factory=dict[str, str])
    stdio: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    at: datetime


class WorkerAlive(Message):
    """A worker's process lives: said several times a second, beside its work, so that its death is noticed quickly."""

    worker: Token


class GatewayPresence(Message):
    """A living gateway (KV bucket `gateways`, key `{gateway}`). `ports` maps `{team}.{agent}` to a bound port."""

    gateway: Token
    url: str
    host: str
    ports: dict[str, int] = Field(default_factory=dict[str, int])
    at: datetime


class AgentRead(Message):
    """A read that only the agent's owner can answer: a prompt, a resource or a completion.

    `params` and the answer are the MCP params and result of `method`.
    """

    team: Token
    agent: Token
    method: Literal["prompts/get", "resources/read", "completion/complete"]
    params: JsonObject


class AgentReadAnswer(Message):
    """The MCP result of an `AgentRead`."""

    result: JsonObject
