"""The model of a checked team folder. It can be printed: everything that may hold a credential is a `SecretStr`.

Keys are digests of an address and a credential. They can be published. Agents with the same key share a connection and
a probe.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from pallas_contracts.agents import Allow, Capabilities, Dependency, Icon, Limits, ModelDependency
from pallas_contracts.costs import model_ref
from pallas_teams.faults import Fault


def key_of(*parts: object) -> str:
    """A digest of JSON values as 16 hex digits. It is the same in every process and on every machine."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def reveal(secrets: Mapping[str, SecretStr]) -> dict[str, str]:
    """The plain values. Use them only to send them."""
    return {name: secret.get_secret_value() for name, secret in secrets.items()}


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model: `openai.gpt-5` is `gpt-5` of the provider `openai`; the offline model is `offline` of `offline`."""

    provider: str
    name: str

    def __str__(self) -> str:
        return model_ref(self.provider, self.name)


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """Address and key of a provider. `base_url` has no slash at its end. The provider `offline` has neither."""

    name: str
    base_url: SecretStr | None = None
    api_key: SecretStr | None = None

    def key(self) -> str:
        """Digest of the provider's name, base address and credential."""
        url, api_key = (secret and secret.get_secret_value() for secret in (self.base_url, self.api_key))
        return key_of(self.name, url, api_key)


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A downstream MCP server over Streamable HTTP. `headers` are sent with every request."""

    name: str
    url: SecretStr
    headers: Mapping[str, SecretStr] = field(default_factory=dict[str, SecretStr])
    transport: Literal["http"] = "http"

    def key(self) -> str:
        """Digest of address and headers. Upper and lower case of header names are the same."""
        headers = sorted((name.lower(), value) for name, value in reveal(self.headers).items())
        return key_of(self.transport, self.url.get_secret_value(), headers)


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A downstream MCP server that is started as a process in `cwd`, with `env` added to its environment.

    In the key, `home` stands for `cwd`: the team and the path within its folder. So the key is the same on machines
    with other paths, and different for each team.
    """

    name: str
    command: SecretStr
    args: tuple[SecretStr, ...] = ()
    env: Mapping[str, SecretStr] = field(default_factory=dict[str, SecretStr])
    cwd: Path = field(default=Path(), repr=False)
    home: str = field(default="", repr=False)
    transport: Literal["stdio"] = "stdio"

    def key(self) -> str:
        """Digest of command, arguments, environment and `home`."""
        args = [arg.get_secret_value() for arg in self.args]
        return key_of(
            self.transport, self.command.get_secret_value(), args, sorted(reveal(self.env).items()), self.home
        )


type ServerConfig = HttpServer | StdioServer


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """The configured capabilities of a model. Sizes are in tokens; None means unknown."""

    vision: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None


UNBOUNDED = sys.maxsize


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One agent of a team.

    `retry_of_tools` has what the folder says of single tools, as `server/tool`.

    An agent of kind llm has a `model` and an `instruction` (its text, also if it was in a file). An agent of kind
    function has a `module`: the path of a file in the folder, or a dotted name. One of kind fast-agent has a `module`,
    or the `card` that is its file; `member` names the agent of the module, and `wanted_model` is the model that
    `agents.yaml` gives it. Its `model` is set only if the name is one that all of Pallas knows. Its `max_iterations`
    are `UNBOUNDED` if only its source bounds them.
    """

    name: str
    kind: Literal["llm", "function", "fast-agent"]
    title: str
    description: str
    version: str
    icon: Icon | None
    port: int | None
    depends_on: tuple[str, ...]
    servers: tuple[str, ...]
    limits: Limits
    retry: Literal["safe", "unsafe"]
    max_iterations: int
    retry_of_tools: Mapping[str, Literal["safe", "unsafe"]] = field(
        default_factory=dict[str, Literal["safe", "unsafe"]]
    )
    on_unknown_tool_outcome: Literal["fail", "tell_model"] = "fail"
    model: ModelRef | None = None
    capabilities: ModelCapabilities | None = None
    instruction: str = field(default="", repr=False)
    module: Path | str | None = None
    card: Path | None = None
    member: str | None = None
    wanted_model: str | None = None
    allow: Allow | None = None
    default: bool = False
    starters: tuple[str, ...] = ()

    def may_repeat(self, server: str, tool: str) -> bool | None:
        """Whether a tool of a downstream server may be called again after a worker was lost.

        None: the folder does not say so, but the tool itself may.
        """
        said = self.retry_of_tools.get(f"{server}/{tool}")
        if said is None:
            return True if self.retry == "safe" else None
        return said == "safe"


@dataclass(frozen=True, slots=True)
class TeamFolder:
    """A team. `servers` are all that are configured, `providers` those that are configured or used by an agent.

    `left_out` has the faults of programs and cards of fast-agent that are not used, `warnings` what is used all the
    same and may be meant otherwise.
    """

    folder: Path
    name: str
    version: str
    host: str | None
    namespace: str
    registry_port: int | None
    team_id: str | None
    agents: Mapping[str, AgentConfig]
    servers: Mapping[str, ServerConfig]
    providers: Mapping[str, ProviderConfig]
    left_out: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()

    def is_entry(self, agent: AgentConfig) -> bool:
        """Whether people begin with this agent: it is the `default`, or there is none and nobody calls it."""
        if any(other.default for other in self.agents.values()):
            return agent.default
        return all(agent.name not in other.depends_on for other in self.agents.values())

    def dependencies(self, agent: AgentConfig) -> tuple[Dependency, ...]:
        """The downstream servers of the agent, in its order, without those of its sub-agents."""
        servers = (self.servers[name] for name in agent.servers)
        return tuple(Dependency(name=it.name, key=it.key(), transport=it.transport) for it in servers)

    def model_dependency(self, agent: AgentConfig) -> ModelDependency | None:
        """The model provider that the agent needs; None if it needs no model."""
        if agent.model is None:
            return None
        provider = self.providers[agent.model.provider]
        return ModelDependency(provider=provider.name, model=agent.model.name, key=provider.key())

    def capabilities(self, agent: AgentConfig) -> Capabilities | None:
        """The capabilities that are published; None if no `model_capabilities` are configured."""
        if agent.model is None or agent.capabilities is None:
            return None
        known = agent.capabilities
        return Capabilities(
            model=agent.model.name,
            vision=known.vision,
            context_window=known.context_window,
            max_output_tokens=known.max_output_tokens,
        )
