"""Builds the service. Without the broker it still answers over HTTP, and its events wait in Postgres."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_bus.access import Access
from pallas_bus.ask import answer, answering
from pallas_bus.connection import connect_when_possible
from pallas_contracts.catalog import LIFECYCLE, LOOK_UP
from pallas_contracts.errors import Rejected, Unavailable
from pallas_credentials.settings import keys_of
from pallas_lookups.cache import LookupCache, open_cache
from pallas_outbox.relay import Relay, watch_lag
from pallas_postgres.engine import open_engine, ping
from pallas_postgres.migrations import settle_restored
from pallas_runtime.process import BROKER, NOT_CONNECTED, Process
from pallas_runtime.run import Service, Simple
from pallas_runtime.settings import PREFIX
from team_lifecycle.changes.make_changes import OUTBOX, Changes
from team_lifecycle.handlers.keys import Seal, ensure_current_key
from team_lifecycle.http.routing import make_http
from team_lifecycle.http.senders import Parts
from team_lifecycle.lookups import answer_lookups
from team_lifecycle.metrics import Metrics, make_metrics
from team_lifecycle.migrate import MIGRATIONS
from team_lifecycle.model import Who
from team_lifecycle.settings import TeamLifecycleSettings

log = logging.getLogger(__name__)

IDLE_SECONDS = 4
"""After this time Postgres ends an idle transaction. It is less than others wait for a lock, so a replica that freezes
within a change only delays their changes."""


@asynccontextmanager
async def build(settings: TeamLifecycleSettings, process: Process) -> AsyncGenerator[Simple]:
    """Migrate the tables, and serve. Events that are not sent at the end wait in Postgres.

    Raises:
        Rejected: there is no Fernet key.
    """
    keys = keys_of(settings.fernet_keys)
    if not keys:
        raise Rejected("PALLAS_FERNET_KEYS is required: it encrypts the signing keys", code="bad_settings")
    seal, metrics, committed = Seal(keys), make_metrics(process.probes.metrics), asyncio.Event()
    async with AsyncExitStack() as stack:
        url = settings.postgres_url.get_secret_value()
        idle = {"idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s"}
        engine = open_engine(url, pool=settings.postgres_pool, service="team-lifecycle", options=idle)
        stack.push_async_callback(engine.dispose)
        enter = stack.enter_async_context
        cache = await enter(open_cache(settings.redis_url.get_secret_value()))
        await enter(process.needs(postgres=partial(ping, engine), redis=partial(_check_redis, cache, metrics)))
        changes = Changes(engine, cache, metrics, committed.set)
        await MIGRATIONS.prepare(engine, partial(_begin, engine, cache, changes, settings, seal, process))
        await enter(process.running(changes.process_pending(), "pending invalidations"))
        await enter(process.running(watch_lag(engine, OUTBOX, metrics.unsent, metrics.lag), "lag of events"))
        await enter(process.running(metrics.postgres.watch(engine), "figures of Postgres"))
        await enter(process.running(_use_broker(settings, process, engine, committed), "events and look-ups"))
        _warn_of_closed_accounts(settings)
        parts = Parts(engine, changes, seal, settings.jwt_algorithm)
        service, admin = settings.service_password_hash, settings.admin_password_hash
        yield Simple(
            make_http(
                parts,
                service_hash=service.get_secret_value() if service else None,
                admin_hash=admin.get_secret_value() if admin else None,
            )
        )


async def _check_redis(cache: LookupCache, metrics: Metrics) -> None:
    """Check that Redis can be used, and show what it says about itself.

    Raises:
        Unavailable: it cannot be used.
    """
    try:
        await cache.check()
    except Unavailable as error:
        metrics.redis.show(cache.info if error.code == "unsafe_redis" else None)
        raise
    metrics.redis.show(cache.info)


async def _begin(
    engine: AsyncEngine,
    cache: LookupCache,
    changes: Changes,
    settings: TeamLifecycleSettings,
    seal: Seal,
    process: Process,
) -> None:
    """Forget look-ups that are later than a restored database, and make a signing key if there is none."""

    async def forget(_: AsyncSession) -> None:
        await cache.clear()

    await settle_restored(engine, forget)
    decide = partial(ensure_current_key, algorithm=settings.jwt_algorithm, seal=seal)
    await changes.make(Who("team-lifecycle", process.instance), decide, alone=True)


async def _use_broker(
    settings: TeamLifecycleSettings, process: Process, engine: AsyncEngine, committed: asyncio.Event
) -> None:
    """Answer look-ups and relay events once the broker is there."""
    process.probes.checks[BROKER] = lambda: NOT_CONNECTED
    access = Access.of(settings)
    async with connect_when_possible(access, LIFECYCLE, instance=process.instance) as bus, process.uses(bus):
        service = await answering(bus, description="Looks up who may read what")
        await answer(bus, service, LOOK_UP, partial(answer_lookups, engine=engine))
        await Relay(bus, engine, OUTBOX, committed, settings.stream_replicas).run()


def _warn_of_closed_accounts(settings: TeamLifecycleSettings) -> None:
    for name in ("service_password_hash", "admin_password_hash"):
        if getattr(settings, name) is None:
            log.warning("an account is closed: it has no password hash", extra={"setting": f"{PREFIX}{name.upper()}"})


SERVICE = Service("team-lifecycle", TeamLifecycleSettings, build)
