"""The models that the agents of a closure name, as fast-agent resolves them, and what is known of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fast_agent.core.exceptions import ModelConfigError, ProviderKeyError
from fast_agent.core.model_resolution import resolve_model_spec
from fast_agent.llm.model_database import ModelDatabase, ModelParameters
from fast_agent.llm.model_factory import ModelFactory
from fast_agent.llm.provider_key_manager import ProviderKeyManager

from fast_agent_worker.project.load import Prepared
from pallas_contracts.agents import ModelDependency
from pallas_contracts.errors import Rejected
from pallas_teams import AgentConfig, TeamFolder

_WITHOUT_MODEL = ("chain", "parallel", "evaluator_optimizer", "maker", "a2a")
"""Types of agents that have no model of their own."""

_OTHER_WAYS = frozenset({"fast-agent", "azure", "bedrock", "copilot", "openresponses", "tensorzero"})
"""Providers that need no key of the settings, or have other ways to sign in. Of all others fast-agent itself knows."""

_CONTEXT_WINDOW, _OUTPUT_TOKENS = 128_000, 16_384
"""Tokens, of a model of which nothing else is known."""


_taught: dict[str, ModelParameters] = {}
"""What folders say of models that fast-agent does not know."""


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model as an agent names it (`spec`). `overlaid`: a file of the folder says how it is reached."""

    agent: str
    spec: str
    provider: str
    name: str
    overlaid: bool


def models_of(prepared: Prepared, data: Mapping[str, Any]) -> tuple[NamedModel, ...]:
    """The models of the agents of a closure, in its order. Every agent that needs one must have one.

    Raises:
        Rejected: an agent has no model, or one that fast-agent does not know.
    """
    return tuple(_named(prepared, data))


def _named(prepared: Prepared, data: Mapping[str, Any]) -> Iterator[NamedModel]:
    for agent, it in data.items():
        spec = resolve_model_spec(prepared.fast.context, model=it["config"].model).model
        if spec is None:
            if it["type"] not in _WITHOUT_MODEL:
                raise Rejected(f"agent {agent!r} has no model; set default_model, or a model in agents.yaml")
            continue
        try:
            found = ModelFactory.resolve_model_spec(spec)
        except ModelConfigError as error:
            raise Rejected(f"agent {agent!r}: fast-agent does not know the model {spec!r}") from error
        yield NamedModel(agent, spec, found.provider.value, found.wire_model_name, found.overlay is not None)


def dependency_of(folder: TeamFolder, models: tuple[NamedModel, ...]) -> ModelDependency | None:
    """The first of the models whose provider can be probed; None if there is none."""
    for model in models:
        if model.provider in folder.providers and not model.overlaid:
            key = folder.providers[model.provider].key()
            return ModelDependency(provider=model.provider, model=model.name, key=key)
    return None


def lacking(prepared: Prepared, models: tuple[NamedModel, ...]) -> str | None:
    """The providers of the models that have no key, in a sentence; None if all have one."""
    wanted = dict.fromkeys(it.provider for it in models if not it.overlaid)
    missing = [each for each in wanted if each not in _OTHER_WAYS and not _has_key(prepared, each)]
    if missing:
        return f"no key for model provider {' and '.join(missing)}: set api_key in the secrets, or its variable"
    return None


def _has_key(prepared: Prepared, provider: str) -> bool:
    try:
        ProviderKeyManager.get_api_key(provider, prepared.fast.context.config)  # empty where none is needed
    except ProviderKeyError:
        return False
    return True


def teach(model: str, agent: AgentConfig) -> None:
    """Tell fast-agent what the folder says of a model that it does not know: it would leave images out silently."""
    known, before = agent.capabilities, _taught.get(model)
    if known is None or (before is None and ModelDatabase.get_model_params(model) is not None):
        return
    # Agents with one model share what is told of it: each is asked for itself (`sees`), so the most that one has holds.
    vision = known.vision or (before is not None and before.tokenizes == ModelDatabase.OPENAI_VISION)
    _taught[model] = ModelParameters(
        context_window=max(known.context_window or _CONTEXT_WINDOW, before.context_window if before else 0),
        max_output_tokens=max(known.max_output_tokens or _OUTPUT_TOKENS, before.max_output_tokens if before else 0),
        tokenizes=ModelDatabase.OPENAI_VISION if vision else ModelDatabase.TEXT_ONLY,
    )
    ModelDatabase.register_runtime_model_params(model, _taught[model])


def sees(agent: AgentConfig, model: str, mime_type: str = "image/png") -> bool:
    """Whether the model gets images of a type: fast-agent has to send them, and the folder must not say otherwise."""
    said = agent.capabilities is None or agent.capabilities.vision
    return said and ModelDatabase.supports_mime(model, mime_type)
