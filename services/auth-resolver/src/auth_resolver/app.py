"""Builds the resolver, which answers `auth.resolve` over the broker from Redis and team-lifecycle."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from auth_resolver.lookups import ReadThrough
from auth_resolver.metrics import Measured, make_metrics
from auth_resolver.resolve import Resolver
from auth_resolver.settings import AuthResolverSettings
from auth_resolver.signatures import Signatures
from pallas_bus.access import Access
from pallas_bus.ask import answer, answering, ask
from pallas_bus.connection import connect_when_possible
from pallas_contracts.auth import LookedUp, Lookups
from pallas_contracts.catalog import LOOK_UP, RESOLVE, RESOLVER
from pallas_contracts.errors import Rejected
from pallas_credentials.settings import keys_of
from pallas_lookups.cache import open_cache
from pallas_runtime.process import Process
from pallas_runtime.run import Service, Simple


@asynccontextmanager
async def build(settings: AuthResolverSettings, process: Process) -> AsyncGenerator[Simple]:
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
        process.uses(bus),
        open_cache(settings.redis_url.get_secret_value()) as cache,
    ):

        async def look_up(question: Lookups) -> LookedUp:
            return await ask(bus, LOOK_UP, question)

        resolver = Resolver(ReadThrough(cache, look_up), Signatures(keys), settings.per_turn_tokens)
        service = await answering(bus, description="Resolves a bearer to the libraries that it may read")
        try:
            await answer(bus, service, RESOLVE, Measured(resolver.resolve, make_metrics(process.probes.metrics)))
            yield Simple(drain=service.finish)
        finally:
            await service.stop()


SERVICE = Service("auth-resolver", AuthResolverSettings, build)
