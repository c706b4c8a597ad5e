"""Connections to models that all turns share.

fast-agent makes a client for each call of a model, and closes it after the call. So each call would begin with a new
connection and its TLS handshake. Here the calls of one address and key share a client, and all clients share a pool.
It keeps no cookies.
"""

from collections.abc import Mapping
from functools import cache, lru_cache, partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import ModuleType
from typing import Any

from fast_agent_worker.project.shorter import transforming

_OPENAI = ("fast_agent.llm.provider.openai.llm_openai", "fast_agent.llm.provider.openai.responses")

_CLIENTS = 64
"""Clients that are kept. There are more only if keys change while the worker runs."""


def share_connections(modules: Mapping[str, ModuleType]) -> None:
    """Let those of the modules that call models use one pool."""
    for name in _OPENAI:
        if name in modules:
            vars(modules[name]).update(DefaultAioHttpClient=_http, AsyncOpenAI=_client)


async def close_connections() -> None:
    """Close the pool, if a model was called."""
    if _http.cache_info().currsize:
        await _http().end()
        _http.cache_clear()
        _kept_client.cache_clear()


def _client(*, default_headers: Mapping[str, str] | None = None, **options: Any) -> Any:
    """The client of an address and a key. It keeps nothing of a call."""
    return _kept_client(tuple(sorted((default_headers or {}).items())), **options)


@lru_cache(_CLIENTS)
def _kept_client(headers: tuple[tuple[str, str], ...], **options: Any) -> Any:
    return _client_type()(default_headers=dict(headers), **options)


@cache
def _client_type() -> type[Any]:
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


@cache
def _http() -> Any:
    """The HTTP client of all calls. The process uses one event loop."""
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

    return Shared(cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())))
