"""A team as its folder describes it: checked, complete, and safe to print.

Everything that may hold a credential is a `SecretStr`. Keys are digests of address and credential, so that whoever
shares both shares a connection and a probe, and so that they can be published.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from pallas_contracts.agents import Allow, Capabilities, Dependency, Icon, Limits, ModelDependency


def key_of(*parts: object) -> str:
    """A digest of JSON values as 16 hex digits; the same in every process and on every machine."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def reveal(secrets: Mapping[str, SecretStr]) -> dict[str, str]:
    """The plain values, for the moment they are sent."""
    return {name: secret.get_secret_value() for name, secret in secrets.items()}


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model: `openai.gpt-5` is `gpt-5` of the provider `openai`; the offline model is `offline` of `offline`."""

    provider: str
    name: str

    def __str__(self) -> str:
        return self.name if self.provider == self.name else f"{self.provider}.{self.name}"


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """Where a provider's models are called and with what. `base_url` has no slash at its end; `offline` has neither."""

    name: str
    base_url: SecretStr | None = None
    api_key: SecretStr | None = None

    def key(self) -> str:
        """Digest of provider, base address and credential."""
        url, api_key = (secret and secret.get_secret_value() for secret in (self.base_url, self.api_key))
        return key_of(self.name, url, api_key)


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A downstream MCP server over Streamable HTTP. `headers` go with every request."""

    name: str
    url: SecretStr
    headers: Mapping[str, SecretStr] = field(default_factory=dict[str, SecretStr])
    transport: Literal["http"] = "http"

    def key(self) -> str:
        """Digest of address and headers; the case of a header's name does not count."""
        headers = sorted((name.lower(), value) for name, value in reveal(self.headers).items())
        return key_of(self.transport, self.url.get_secret_value(), headers)


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A downstream MCP server that is started as a process in `cwd`, with `env` added to its environment.

    `home` is what `cwd` counts as in the key: the team and the place in its folder, so that a folder found under
    another path on another machine gives the same key, and two teams' folders do not.
    """

    name: str
    command: SecretStr
    args: tuple[SecretStr, ...] = ()
    env: Mapping[str, SecretStr] = field(default_factory=dict[str, SecretStr])
    cwd: Path = field(default=Path(), repr=False)
    home: str = field(default="", repr=False)
    transport: Literal["stdio"] = "stdio"

    def key(self) -> str:
        """Digest of command, arguments, environment and place."""
        args = [arg.get_secret_value() for arg in self.args]
        return key_of(
            self.transport, self.command.get_secret_value(), args, sorted(reveal(self.env).items()), self.home
        )


type ServerConfig = HttpServer | StdioServer


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """What the folder says a model can do; None is unknown. Tokens."""

    vision: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One agent of a team.

    A kind llm agent has a `model` and an `instruction` (the text itself, also when it came from a file); a kind
    function agent has a `module`: a path when it is a file of the folder, a dotted name otherwise.
    """

    name: str
    kind: Literal["llm", "function"]
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
    model: ModelRef | None = None
    capabilities: ModelCapabilities | None = None
    instruction: str = field(default="", repr=False)
    module: Path | str | None = None
    allow: Allow | None = None


@dataclass(frozen=True, slots=True)
class TeamFolder:
    """A team. `providers` holds those that its agents use or that are configured, `servers` all that are configured."""

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

    def dependencies(self, agent: AgentConfig) -> tuple[Dependency, ...]:
        """The downstream servers the agent itself uses, in its order; those of its sub-agents are theirs."""
        servers = (self.servers[name] for name in agent.servers)
        return tuple(Dependency(name=it.name, key=it.key(), transport=it.transport) for it in servers)

    def model_dependency(self, agent: AgentConfig) -> ModelDependency | None:
        """The model provider the agent needs; None when it needs no model."""
        if agent.model is None:
            return None
        provider = self.providers[agent.model.provider]
        return ModelDependency(provider=provider.name, model=agent.model.name, key=provider.key())

    def capabilities(self, agent: AgentConfig) -> Capabilities | None:
        """What is published of the agent's model; None unless `model_capabilities` is configured for it."""
        if agent.model is None or agent.capabilities is None:
            return None
        known = agent.capabilities
        return Capabilities(
            model=agent.model.name,
            vision=known.vision,
            context_window=known.context_window,
            max_output_tokens=known.max_output_tokens,
        )
