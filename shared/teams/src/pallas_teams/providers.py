"""The table of model providers, and the model names that choose one of them.

A key from the environment is sent only to a provider's default address, never to an address that a team folder
configures without a key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import SecretStr

from pallas_teams.model import ModelRef, ProviderConfig

if TYPE_CHECKING:
    from pallas_teams.schema import ConfigFile

OFFLINE = "offline"
"""The provider of the offline model. It has no address, no key and no section in the configuration."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider of the table.

    `api` is the API that its models are called over, `base_url` its default address, `variable` the environment
    variable that may hold its key.
    """

    api: Literal["openai", "anthropic"]
    base_url: str | None = None
    variable: str | None = None


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": Provider("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "generic": Provider("openai"),
}
"""Every provider that can be configured, by the name of its section. A new one is an entry here; if it has an API of
its own, workers need a factory for its models and the health monitor a probe.
"""


def parse_model(text: str) -> ModelRef | None:
    """Parse `offline` or `PROVIDER.NAME`; None when it is neither."""
    if text == OFFLINE:
        return ModelRef(OFFLINE, OFFLINE)
    provider, _, name = text.partition(".")
    return ModelRef(provider, name) if provider in PROVIDERS and name.strip() else None


def missing_setting(provider: str, *, base_url: bool, api_key: bool, environ: Mapping[str, str]) -> str | None:
    """What must still be configured before this provider can be called; None when nothing is missing.

    `base_url` and `api_key` say whether these fields are configured.
    """
    known = PROVIDERS.get(provider)
    if known is None or base_url:
        return None
    if known.base_url is None:
        return f"needs {provider}.base_url in fastagent.config.yaml"
    if api_key or (known.variable and environ.get(known.variable)):
        return None
    return f"needs {provider}.api_key in fastagent.secrets.yaml or {known.variable} in the environment"


def callable_providers(config: "ConfigFile", environ: Mapping[str, str]) -> tuple[str, ...]:
    """The providers that have a section in the configuration and can be called, whether an agent uses them or not."""
    return tuple(name for name in PROVIDERS if config.provider(name) is not None and is_callable(name, config, environ))


def is_callable(name: str, config: "ConfigFile", environ: Mapping[str, str]) -> bool:
    """Whether nothing that the provider needs is missing."""
    section = config.provider(name) if name in PROVIDERS else None
    base_url, api_key = bool(section and section.base_url), bool(section and section.api_key)
    return missing_setting(name, base_url=base_url, api_key=api_key, environ=environ) is None


def provider_config(name: str, config: "ConfigFile", environ: Mapping[str, str]) -> ProviderConfig:
    """The provider with its address and key filled in; `config` has passed the checks."""
    if name == OFFLINE:
        return ProviderConfig(OFFLINE)
    known, section = PROVIDERS[name], config.provider(name)
    api_key = section.api_key if section and section.api_key and section.api_key.get_secret_value() else None
    if section and section.base_url:
        return ProviderConfig(name, SecretStr(section.base_url.get_secret_value().rstrip("/")), api_key)
    found = environ.get(known.variable or "")
    return ProviderConfig(name, SecretStr(known.base_url or ""), api_key or (SecretStr(found) if found else None))
