"""Model names and the providers they choose.

The environment stands in for a key only at a provider's own address: a key from there is never sent to an address that
the folder names without naming the key too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from pallas_teams.model import ModelRef, ProviderConfig
from pallas_teams.schema import ConfigFile

OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class _Provider:
    base_url: str | None
    variable: str | None


_PROVIDERS = {
    "openai": _Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": _Provider("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "generic": _Provider(None, None),
}


def parse_model(text: str) -> ModelRef | None:
    """Read `offline` or `PROVIDER.NAME`; None when it is neither."""
    if text == OFFLINE:
        return ModelRef(OFFLINE, OFFLINE)
    provider, _, name = text.partition(".")
    return ModelRef(provider, name) if provider in _PROVIDERS and name.strip() else None


def lacking(provider: str, *, base_url: bool, api_key: bool, environ: Mapping[str, str]) -> str | None:
    """What a model of this provider still needs, given which fields are configured; None when it can be called."""
    known = _PROVIDERS.get(provider)
    if known is None or base_url:
        return None
    if known.base_url is None:
        return f"needs {provider}.base_url in fastagent.config.yaml"
    if api_key or (known.variable and environ.get(known.variable)):
        return None
    return f"needs {provider}.api_key in fastagent.secrets.yaml or {known.variable} in the environment"


def callable_providers(config: ConfigFile, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The providers that have a section in the configuration and lack nothing, whether an agent uses them or not."""
    sections = (("openai", config.openai), ("anthropic", config.anthropic), ("generic", config.generic))
    return tuple(
        name
        for name, section in sections
        if section is not None
        and lacking(name, base_url=bool(section.base_url), api_key=bool(section.api_key), environ=environ) is None
    )


def provider_config(name: str, config: ConfigFile, environ: Mapping[str, str]) -> ProviderConfig:
    """The provider with its address and key filled in; `config` has passed the rules."""
    if name == OFFLINE:
        return ProviderConfig(OFFLINE)
    known = _PROVIDERS[name]
    section = {"openai": config.openai, "anthropic": config.anthropic, "generic": config.generic}[name]
    api_key = section.api_key if section and section.api_key and section.api_key.get_secret_value() else None
    if section and section.base_url:
        return ProviderConfig(name, SecretStr(section.base_url.get_secret_value().rstrip("/")), api_key)
    found = environ.get(known.variable or "")
    return ProviderConfig(name, SecretStr(known.base_url or ""), api_key or (SecretStr(found) if found else None))
