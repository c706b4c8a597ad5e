"""The resolver, put together: questions in over the bus, Redis and the truth behind."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from auth_resolver.lookups import ReadThrough
from auth_resolver.resolve import Resolver
from auth_resolver.settings import AuthResolverSettings, fernet_keys
from auth_resolver.signatures import Signatures
from pallas_bus.access import Access
from pallas_bus.ask import Answering, answer, answering, ask
from pallas_bus.connection import connect_when_possible
from pallas_contracts.auth import AUTH_FAILURES, LookedUp, Lookups, ResolveBearer, Resolved
from pallas_contracts.catalog import LOOK_UP, RESOLVE, RESOLVER
from pallas_contracts.errors import Denied, PallasError, Rejected
from pallas_lookups.cache import open_cache
from pallas_runtime.run import BROKER, Process

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


@dataclass(frozen=True)
class AuthResolver:
    """The service at work."""

    answers: Answering
    http: None = None

    async def drain(self) -> None:
        """Take no more questions, and answer those under way."""
        await self.answers.finish()


class Measured:
    """A resolver whose answers and refusals are counted."""

    def __init__(self, resolve: Callable[[ResolveBearer], Awaitable[Resolved]], metrics: CollectorRegistry) -> None:
        self._resolve = resolve
        self._failures = Counter("mcp_auth_failures", "Bearers that were refused", ["reason"], registry=metrics)
        seconds = Histogram(
            "pallas_auth_resolve_seconds", "Time to resolve a bearer", ["cache"], registry=metrics, buckets=_BUCKETS
        )
        self._seconds = {outcome: seconds.labels(outcome) for outcome in ("hit", "miss", "bypass", "failed")}
        for reason in AUTH_FAILURES:
            self._failures.labels(reason)

    async def __call__(self, question: ResolveBearer) -> Resolved:
        """Resolve, and count."""
        began = time.perf_counter()
        try:
            resolved = await self._resolve(question)
        except Denied as error:
            self._failures.labels(error.code).inc()
            raise
        except PallasError:
            self._seconds["failed"].observe(time.perf_counter() - began)
            raise
        self._seconds[resolved.cache].observe(time.perf_counter() - began)
        return resolved


@asynccontextmanager
async def build(
    settings: AuthResolverSettings, process: Process, *, protect: bool = True
) -> AsyncGenerator[AuthResolver]:
    """Connect and answer. Without `protect` answers can be stale: only to show what that is for."""
    keys = fernet_keys(settings.fernet_keys)
    if not keys:
        raise Rejected("PALLAS_FERNET_KEYS is required: the keys by which team-lifecycle seals signing keys")
    access = Access.of(settings)
    async with (
        connect_when_possible(access, RESOLVER, instance=process.instance) as bus,
        process.without(bus.closed, BROKER),
        open_cache(settings.redis_url.get_secret_value(), protect=protect) as cache,
    ):
        process.probes.checks["broker"] = lambda: None if bus.connected else "not connected"

        async def truth(question: Lookups) -> LookedUp:
            return await ask(bus, LOOK_UP, question)

        resolver = Resolver(ReadThrough(cache, truth), Signatures(keys), settings.per_turn_tokens)
        service = await answering(bus, description="Says which libraries a bearer may read")
        try:
            await answer(bus, service, RESOLVE, Measured(resolver.resolve, process.probes.metrics))
            yield AuthResolver(service)
        finally:
            await service.stop()
