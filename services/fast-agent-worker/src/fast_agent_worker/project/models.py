"""Connections to models that all turns share.

fast-agent makes a client for each call of a model, so each call would begin with a new connection and a TLS handshake.
Here the calls of one address and key share a client, and all clients of a provider's library share a pool without
cookies. This is done for OpenAI's and compatible models and for Anthropic's.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import ModuleType
from typing import Any

from fast_agent_worker.project.shorter import transforming
from pallas_mcp_calls.model_answers import bound_answer

_OPENAI = ("fast_agent.llm.provider.openai.llm_openai", "fast_agent.llm.provider.openai.responses")
_ANTHROPIC = "fast_agent.llm.provider.anthropic.llm_anthropic"

_BOUNDED: Any = {"headers": {"accept-encoding": "identity"}, "event_hooks": {"response": [bound_answer]}}
_CLIENTS = 64
"""Clients that are kept. There are more only if keys change while the worker runs."""


def share_connections(modules: Mapping[str, ModuleType]) -> None:
    """Let those of the modules that call models use the pools."""
    for name in _OPENAI:
        if name in modules:
            vars(modules[name]).update(DefaultAioHttpClient=_http, AsyncOpenAI=partial(_client, _openai))
    if _ANTHROPIC in modules:
        vars(modules[_ANTHROPIC]).update(AsyncAnthropic=partial(_client, _anthropic))


async def close_connections() -> None:
    """Close the pools, if a model was called."""
    for http, end in ((_http, "end"), (_anthropic_http, "aclose")):
        if http.cache_info().currsize:
            await getattr(http(), end)()
            http.cache_clear()
    _kept_client.cache_clear()


def _client(make: Callable[..., Any], *, default_headers: Mapping[str, str] | None = None, **options: Any) -> Any:
    """The client of an address and a key. It keeps nothing of a call."""
    return _kept_client(make, tuple(sorted((default_headers or {}).items())), **options)


@lru_cache(_CLIENTS)
def _kept_client(make: Callable[..., Any], headers: tuple[tuple[str, str], ...], **options: Any) -> Any:
    return make(default_headers=dict(headers), **options)


def _openai(**options: Any) -> Any:
    return _openai_client()(**options)


@cache
def _openai_client() -> type[Any]:
    """OpenAI's client, which does not walk through the types of a body, nor parse an address again."""
    from openai import AsyncOpenAI
    from openai._utils import async_maybe_transform
    from openai.resources.chat.completions import completions
    from openai.resources.responses import responses

    for each in (completions.__dict__, responses.__dict__):
        each["async_maybe_transform"] = transforming(async_maybe_transform)

    class Client(AsyncOpenAI):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._prepare_url = lru_cache(_CLIENTS)(self._prepare_url)

    return Client


def _anthropic(**options: Any) -> Any:
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(http_client=_anthropic_http(), **options)


@cache
def _anthropic_http() -> Any:
    """The HTTP client of all calls of Anthropic's models."""
    from anthropic import DefaultAsyncHttpxClient

    return DefaultAsyncHttpxClient(cookies=_no_cookies(), **_BOUNDED)


def _no_cookies() -> CookieJar:
    return CookieJar(DefaultCookiePolicy(allowed_domains=()))


@cache
def _http() -> Any:
    """The HTTP client of all calls of OpenAI's and compatible models. The process uses one event loop."""
    from aiohttp import ClientSession, DummyCookieJar, TCPConnector
    from openai import DefaultAioHttpClient

    def session(transport: Any) -> ClientSession:
        limits = transport.limits
        connector = TCPConnector(
            ssl=transport.ssl_context, limit=limits.max_connections, keepalive_timeout=limits.keepalive_expiry
        )
        return ClientSession(connector=connector, cookie_jar=DummyCookieJar())

    class Shared(DefaultAioHttpClient):
        def _init_transport(self, *args: Any, **kwargs: Any) -> Any:
            transport: Any = super()._init_transport(*args, **kwargs)
            transport.client = partial(session, transport)
            return transport

        async def aclose(self) -> None:
            """Stay open: one call ends, the others go on."""

        async def end(self) -> None:
            """Close the pool."""
            await super().aclose()

    return Shared(cookies=_no_cookies(), **_BOUNDED)
