"""The models of a team: made once and shared by all turns, with one HTTP client per address and credential.

Provider SDKs are imported only when an agent names them. The SDK always gets a key, if only a placeholder: without one
it would take a key from the environment and send it to whatever address is configured.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import httpx2
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from agent_worker.llm.responses import Counted, CountingClient, ignore
from pallas_contracts.costs import Cost
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import TurnError
from pallas_hosting.seed import Image, Row, Seed
from pallas_runtime.telemetry import tracing
from pallas_teams.model import AgentConfig, ModelCapabilities, ModelRef, ProviderConfig
from pallas_teams.prices import NO_PRICES, PriceTable
from pallas_teams.providers import OFFLINE, PROVIDERS, parse_model

UNKNOWN_MODEL: TurnError = "unknown_model"
_NO_KEY = "none"
_TIMEOUT = httpx2.Timeout(600.0, connect=10.0)
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=10)
"""Idle connections are closed only when a next request comes, however long they have been idle."""


@dataclass(frozen=True, slots=True)
class AgentModel:
    """A model as an agent uses it. `streams` says whether its text is requested piece by piece.

    With `trace_content`, the spans of runs on it contain prompts and answers.
    """

    name: str
    model: Model
    streams: bool
    settings: ModelSettings
    trace_content: bool = False
    provider: str = OFFLINE
    prices: PriceTable = NO_PRICES

    def cost(self, usage: RequestUsage) -> Cost | None:
        """What a call costs; None if the model has no price."""
        return self.prices.cost(
            self.provider,
            self.name,
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a factory makes a model of: its name, its limits, and how its provider is called."""

    name: str
    limits: ModelCapabilities
    base_url: str | None
    api_key: str
    client: Callable[[], httpx2.AsyncClient]


def _offline(wanted: _Wanted) -> AgentModel:
    from agent_worker.llm.offline import offline_model

    model = offline_model(wanted.limits.context_window)
    return AgentModel(wanted.name, model, streams=False, settings=ModelSettings())


def _openai(wanted: _Wanted) -> AgentModel:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=wanted.base_url, api_key=wanted.api_key, http_client=wanted.client())
    return AgentModel(wanted.name, OpenAIChatModel(wanted.name, provider=provider), True, ModelSettings())


def _anthropic(wanted: _Wanted) -> AgentModel:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(base_url=wanted.base_url, api_key=wanted.api_key, http_client=wanted.client())
    # Anthropic requires a limit for the answer; the others take what is left of the context window.
    most = wanted.limits.max_output_tokens
    settings = ModelSettings(max_tokens=most) if most else ModelSettings()
    return AgentModel(wanted.name, AnthropicModel(wanted.name, provider=provider), True, settings)


_FACTORIES: Mapping[str, Callable[[_Wanted], AgentModel]] = {"openai": _openai, "anthropic": _anthropic}
"""How models are made, by `Provider.api`."""


class TeamModels:
    """Makes models and owns their HTTP clients. With `trace_content`, spans contain prompts and answers.

    `counted` is called with the provider for each of its responses.
    """

    def __init__(
        self, *, trace_content: bool = False, prices: PriceTable = NO_PRICES, counted: Counted = ignore
    ) -> None:
        self._trace_content = trace_content
        self._prices = prices
        self._counted = counted
        self._made: dict[tuple[str, ModelRef | None, ModelCapabilities | None], AgentModel] = {}
        self._clients: dict[str, httpx2.AsyncClient] = {}

    def make(self, agent: AgentConfig, provider: ProviderConfig) -> AgentModel:
        """The model of an agent, made on first use.

        Raises:
            Rejected: the agent has no model, or there is no such provider.
        """
        key = provider.key(), agent.model, agent.capabilities
        if key not in self._made:
            made = replace(self._make(agent, provider), provider=provider.name, prices=self._prices)
            self._made[key] = self._traced(made)
        return self._made[key]

    def instead(self, agent: AgentConfig, text: str, providers: Mapping[str, ProviderConfig]) -> AgentModel:
        """The model that `text` names, as the agent would use it. It is assumed to have the agent's capabilities.

        Raises:
            Rejected: it names no model, or one of a provider that the team has not configured (`unknown_model`).
        """
        named = parse_model(text)
        if named is None:
            raise Rejected(f"{text!r} is not a model: use 'offline' or PROVIDER.NAME", code=UNKNOWN_MODEL)
        provider = ProviderConfig(OFFLINE) if named.provider == OFFLINE else providers.get(named.provider)
        if provider is None:
            raise Rejected(f"the team has not configured the provider of {text!r}", code=UNKNOWN_MODEL)
        return self.make(replace(agent, model=named), provider)

    def _make(self, agent: AgentConfig, config: ProviderConfig) -> AgentModel:
        if agent.model is None:
            raise Rejected(f"agent {agent.name!r} has no model")
        wanted = _Wanted(
            name=agent.model.name,
            limits=agent.capabilities or ModelCapabilities(),
            base_url=config.base_url.get_secret_value() if config.base_url else None,
            api_key=config.api_key.get_secret_value() if config.api_key else _NO_KEY,
            client=lambda: self._client(config),
        )
        if config.name == OFFLINE:
            return _offline(wanted)
        if config.name not in PROVIDERS:
            raise Rejected(f"agent {agent.name!r} names the unknown model provider {config.name!r}")
        return _FACTORIES[PROVIDERS[config.name].api](wanted)

    def _traced(self, made: AgentModel) -> AgentModel:
        """Have pydantic-ai make the spans of its calls, by the semantic conventions for generative AI."""
        if not tracing():
            return made
        from pydantic_ai.models.instrumented import InstrumentationSettings, InstrumentedModel

        content = self._trace_content
        settings = InstrumentationSettings(include_content=content, include_model_request_parameters=False)
        return replace(made, model=InstrumentedModel(made.model, settings), trace_content=content)

    def _client(self, config: ProviderConfig) -> httpx2.AsyncClient:
        key = config.key()
        if key not in self._clients:
            self._clients[key] = CountingClient(config.name, self._counted, timeout=_TIMEOUT, limits=_LIMITS)
        return self._clients[key]

    async def close(self) -> None:
        """Close all HTTP clients."""
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))
        self._clients.clear()


def seed_prompt(seed: Seed) -> str | list[UserContent]:
    """The new message, with the images of this call."""
    return _content(seed.message, seed.images)


def seed_history(rows: Sequence[Row]) -> list[ModelMessage]:
    """The history, one message for each row."""
    return [_message(row) for row in rows]


def _message(row: Row) -> ModelMessage:
    if row.role == "user":
        return ModelRequest([UserPromptPart(_content(row.content, row.images))])
    files = [FilePart(_binary(image)) for image in row.images]
    return ModelResponse([TextPart(row.content), *files])


def _content(text: str, images: Sequence[Image]) -> str | list[UserContent]:
    return [text, *(_binary(image) for image in images)] if images else text


def _binary(image: Image) -> BinaryContent:
    return BinaryContent(image.data, media_type=image.mime_type)
