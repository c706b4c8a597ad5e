"""Preflight of a model's provider: it answers, accepts the credential and has the model. Never an inference."""

from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import httpx

from health_monitor.probes.probing import reason_of
from pallas_teams import ProviderConfig
from pallas_teams.providers import PROVIDERS

_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class ModelProbe:
    """Probes over `http`, for `timeout` seconds."""

    http: httpx.AsyncClient
    timeout: float

    async def probe(self, provider: ProviderConfig, model: str) -> str | None:
        """Return None when the provider has the model, else why not."""
        probes = {"openai": self._openai, "anthropic": self._anthropic}
        probe = probes[PROVIDERS[provider.name].api]
        return await reason_of(probe(provider, model), self.timeout)

    async def _openai(self, provider: ProviderConfig, model: str) -> str | None:
        key = _api_key(provider)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        response = await self.http.get(f"{_base(provider)}/models", headers=headers)
        if response.status_code != 200:
            return f"HTTP {response.status_code}"
        listed = _listed(response)
        if listed is None:
            return "does not list its models"
        # Ollama lists a model that was named without a tag under its default one.
        return None if {model, f"{model}:latest"} & listed else f"has no model {model!r}"

    async def _anthropic(self, provider: ProviderConfig, model: str) -> str | None:
        headers = {"x-api-key": _api_key(provider), "anthropic-version": _ANTHROPIC_VERSION}
        base = _base(provider).removesuffix("/v1")
        response = await self.http.get(f"{base}/v1/models/{quote(model, safe='')}", headers=headers)
        if response.status_code == 404:
            return f"has no model {model!r}"
        return None if response.status_code == 200 else f"HTTP {response.status_code}"


def _base(provider: ProviderConfig) -> str:
    return provider.base_url.get_secret_value() if provider.base_url else ""


def _api_key(provider: ProviderConfig) -> str:
    return provider.api_key.get_secret_value() if provider.api_key else ""


def _listed(response: httpx.Response) -> set[str] | None:
    """The ids in an OpenAI list of models; None when the body is no such list."""
    try:
        body: Any = response.json()
    except ValueError:
        return None
    rows: Any = cast("dict[str, Any]", body).get("data") if isinstance(body, dict) else None
    if not isinstance(rows, list):
        return None
    return {str(cast("dict[str, Any]", row).get("id")) for row in cast("list[Any]", rows) if isinstance(row, dict)}
