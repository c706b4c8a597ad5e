"""The models of a team: made once, shared by all turns, one HTTP client for each provider and credential.

Provider SDKs are imported only when an agent names them. A key is always given to the SDK, even an empty stand-in:
without one it would look into the environment and send what it finds there to whatever address is configured.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import httpx2
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from pallas_contracts.errors import Rejected
from pallas_teams.model import AgentConfig, ModelCapabilities, ModelRef, ProviderConfig
from pallas_teams.providers import OFFLINE, parse_model

if TYPE_CHECKING:
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

_NO_KEY = "none"
_TIMEOUT = httpx2.Timeout(600.0, connect=10.0)
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)


@dataclass(frozen=True, slots=True)
class AgentModel:
    """A model as an agent uses it. `streams` says whether to ask for its text piece by piece."""

    name: str
    model: Model
    streams: bool
    settings: ModelSettings


class TeamModels:
    """Makes models and owns their HTTP clients."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ModelRef | None, ModelCapabilities | None], AgentModel] = {}
        self._openai: dict[str, OpenAIProvider] = {}
        self._anthropic: dict[str, AnthropicProvider] = {}
        self._clients: list[httpx2.AsyncClient] = []

    def make(self, agent: AgentConfig, provider: ProviderConfig) -> AgentModel:
        """The model of an agent, made when it is first asked for.

        Raises:
            Rejected: the agent has no model, or there is no such provider.
        """
        key = provider.key(), agent.model, agent.capabilities
        if key not in self._made:
            self._made[key] = self._make(agent, provider)
        return self._made[key]

    def instead(self, agent: AgentConfig, text: str, providers: Mapping[str, ProviderConfig]) -> AgentModel:
        """The model that `text` names, as the agent would use it. What it can do is taken to be what the agent's can.

        Raises:
            Rejected: it names no model, or one of a provider that the team has not configured (`unknown_model`).
        """
        named = parse_model(text)
        if named is None:
            raise Rejected(f"{text!r} is no model: 'offline' or PROVIDER.NAME is", code="unknown_model")
        provider = ProviderConfig(OFFLINE) if named.provider == OFFLINE else providers.get(named.provider)
        if provider is None:
            raise Rejected(f"the team has not configured the provider of {text!r}", code="unknown_model")
        return self.make(replace(agent, model=named), provider)

    def _make(self, agent: AgentConfig, provider: ProviderConfig) -> AgentModel:
        if agent.model is None:
            raise Rejected(f"agent {agent.name!r} has no model")
        limits = agent.capabilities
        name = agent.model.name
        match provider.name:
            case "offline":
                from agent_worker.llm.offline import offline_model

                window = limits.context_window if limits else None
                return AgentModel(name, offline_model(window), streams=False, settings=ModelSettings())
            case "openai" | "generic":
                from pydantic_ai.models.openai import OpenAIChatModel

                chat = OpenAIChatModel(name, provider=self._openai_provider(provider))
                return AgentModel(name, chat, streams=True, settings=ModelSettings())
            case "anthropic":
                from pydantic_ai.models.anthropic import AnthropicModel

                # Anthropic wants to be told how long an answer may be; the others take what is left of the window.
                most = limits.max_output_tokens if limits else None
                settings = ModelSettings(max_tokens=most) if most else ModelSettings()
                claude = AnthropicModel(name, provider=self._anthropic_provider(provider))
                return AgentModel(name, claude, streams=True, settings=settings)
            case _:
                raise Rejected(f"agent {agent.name!r} names the unknown model provider {provider.name!r}")

    def _openai_provider(self, config: ProviderConfig) -> "OpenAIProvider":
        from pydantic_ai.providers.openai import OpenAIProvider

        key = config.key()
        if key not in self._openai:
            url, api_key = _address(config)
            self._openai[key] = OpenAIProvider(base_url=url, api_key=api_key, http_client=self._client())
        return self._openai[key]

    def _anthropic_provider(self, config: ProviderConfig) -> "AnthropicProvider":
        from pydantic_ai.providers.anthropic import AnthropicProvider

        key = config.key()
        if key not in self._anthropic:
            url, api_key = _address(config)
            self._anthropic[key] = AnthropicProvider(base_url=url, api_key=api_key, http_client=self._client())
        return self._anthropic[key]

    def _client(self) -> httpx2.AsyncClient:
        client = httpx2.AsyncClient(timeout=_TIMEOUT, limits=_LIMITS)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        """Close all HTTP clients."""
        await asyncio.gather(*(client.aclose() for client in self._clients))
        self._clients.clear()


def _address(config: ProviderConfig) -> tuple[str | None, str]:
    url = config.base_url.get_secret_value() if config.base_url else None
    return url, config.api_key.get_secret_value() if config.api_key else _NO_KEY
