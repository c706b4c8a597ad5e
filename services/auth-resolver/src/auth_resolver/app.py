"""Builds the resolver, which answers `auth.resolve` over the broker from Redis and team-lifecycle."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from auth_resolver.lookups import ReadThrough
from auth_resolver.metrics import FAILED, Metrics, make_metrics
from auth_resolver.resolve import Resolver
from auth_resolver.settings import AuthResolverSettings
from auth_resolver.signatures import Signatures
from pallas_bus.transport.access import Access
from pallas_bus.transport.ask import (
    Answering,
    answer,
    answering,
    ask,
)
from pallas_bus.transport.connection import connect_when_possible
from pallas_contracts.auth import LookedUp, Lookups, ResolveBearer, Resolved
from pallas_contracts.catalog import LOOK_UP, RESOLVE, RESOLVER
from pallas_contracts.errors import Denied, PallasError, Rejected
from pallas_credentials.settings import keys_of
from pallas_lookups.cache import open_cache
from pallas_runtime.run import BROKER, Process


@dataclass(frozen=True)
class AuthResolver:
    """The running service."""

    answers: Answering
    http: None = None

    async def drain(self) -> None:
        """Take no more questions. Answer those under way."""
        await self.answers.finish()


class Measured:
    """Counts and times what a resolver answers and refuses."""

    def __init__(self, resolve: Callable[[ResolveBearer], Awaitable[Resolved]], metrics: Metrics) -> None:
        self._resolve = resolve
        self._metrics = metrics

    async def __call__(self, question: ResolveBearer) -> Resolved:
        """Resolve a bearer."""
        began = time.perf_counter()
        try:
            resolved = await self._resolve(question)
        except Denied as error:
            self._metrics.failures.labels(error.code).inc()
            raise
        except PallasError:
            self._metrics.seconds[FAILED].observe(time.perf_counter() - began)
            raise
        self._metrics.seconds[resolved.cache].observe(time.perf_counter() - began)
        return resolved


@asynccontextmanager
async def build(settings: AuthResolverSettings, process: Process) -> AsyncGenerator[AuthResolver]:
    """Connect, and answer questions.

    Raises:
        Rejected: there is no Fernet key.
    """
    keys = keys_of(settings.fernet_keys)
    if not keys:
        raise Rejected("PALLAS_FERNET_KEYS is required: the keys with which team-lifecycle encrypts signing keys")
    access = Access.of(settings)
    async with (
        connect_when_possible(access, RESOLVER, instance=process.instance) as bus,
        process.without(bus.closed, BROKER),
        open_cache(settings.redis_url.get_secret_value()) as cache,
    ):
        process.probes.checks["broker"] = lambda: None if bus.connected else "not connected"

        async def truth(question: Lookups) -> LookedUp:
            return await ask(bus, LOOK_UP, question)

        resolver = Resolver(ReadThrough(cache, truth), Signatures(keys), settings.per_turn_tokens)
        service = await answering(bus, description="Resolves a bearer to the libraries that it may read")
        try:
            await answer(bus, service, RESOLVE, Measured(resolver.resolve, make_metrics(process.probes.metrics)))
            yield AuthResolver(service)
        finally:
            await service.stop()
