"""Which provider a model of fast-agent has, and whether it has a key, as far as that is known without fast-agent.

A test compares the table with all models that fast-agent knows.
"""

import re
from collections.abc import Mapping
from typing import Any

_PROVIDERS = {
    *("aliyun", "anthropic", "deepseek", "google", "groq", "hf", "metaai", "moonshot", "openai", "openrouter"),
    *("responses", "xai", "zai"),
    *("anthropic-vertex", "azure", "bedrock", "codexresponses", "copilot", "fast-agent", "generic", "googleoai"),
    *("openresponses", "tensorzero"),
}
_OTHER_WAYS = {
    *("anthropic-vertex", "azure", "bedrock", "codexresponses", "copilot", "fast-agent", "generic", "openresponses"),
    *("tensorzero", "googleoai", "xai"),
}
"""Providers that need no key of the settings, or have other ways to sign in."""

_BY_NAME = [
    (re.compile(pattern), provider)
    for pattern, provider in (
        (r"(passthrough|playback|silent|slow)$", "fast-agent"),
        (r"(claude|haiku|sonnet|opus|fable)", "anthropic"),
        (r"gemini", "google"),
        (r"(gpt-5\.3-codex-spark|astra|codexplan|codexspark|luna|sol|terra)", "codexresponses"),
        (r"(gpt-4\.1|gpt-4o)", "openai"),
        (r"(gpt-?5|gpt-?6|o1|o3|o4|chatgpt|chat-latest|codex$)", "responses"),
        (r"grok", "xai"),
        (r"(muse-|muse$|musecontrib)", "metaai"),
        (r"kimi-?k3", "moonshot"),
        (r"(glm-5|zaiglm)", "zai"),
        (r"(qwen/qwen3\.6-27b|qwen3\.6-27b|qwen3-32b)", "groq"),
        (r"(qwen-|qwen3-max)", "aliyun"),
        (r"(deepseek-ai/|deepseek.*hf$|deepseek32)", "hf"),
        (r"deepseek", "deepseek"),
        (r"(kimi|glm|glimmer|minimax|gemma|gpt-oss|qwen|moonshotai/|zai-org/|meta-models/)", "hf"),
    )
]
"""Of models that are named without their provider."""
_VARIABLES = {"hf": "HF_TOKEN", "responses": "OPENAI_API_KEY", "metaai": "META_AI_API_KEY"}
_SECTIONS = {"hf": ("hf", "huggingface"), "responses": ("responses", "openai")}
_HINT = "<your-api-key-here>"


def provider_of(spec: str) -> str | None:
    """The provider of a model such as `openai.gpt-4.1?temperature=0` or `sonnet`; None if it is not known here."""
    name = spec.partition("?")[0].strip()
    for separator in (".", "/"):
        provider, found, _ = name.partition(separator)
        if found and provider.lower() in _PROVIDERS:
            return provider.lower()
    name = name.lower()
    return next((provider for pattern, provider in _BY_NAME if pattern.match(name)), None)


def missing_key(provider: str, settings: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """What to set, if a provider has no key in the settings (with secrets) nor in the environment; else None."""
    if provider in _OTHER_WAYS:
        return None
    sections, variable = _SECTIONS.get(provider, (provider,)), _VARIABLES.get(provider, f"{provider.upper()}_API_KEY")
    for section in sections:
        match settings.get(section):
            case {"api_key": str(key)} if key and key != _HINT:
                return None
            case {"vertex_ai": {"enabled": True}}:
                return None
            case _:
                pass
    return None if environ.get(variable) else f"set {variable}, or {sections[-1]}.api_key in the secrets"
