"""The service, put together. Without the broker it answers over HTTP, and what it has to say waits in Postgres."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.types import ASGIApp

from pallas_bus.transport.access import Access
from pallas_bus.transport.ask import answer, answering
from pallas_bus.transport.connection import Bus, connect_when_possible
from pallas_contracts.catalog import LIFECYCLE, LOOK_UP
from pallas_contracts.errors import Rejected, Unavailable
from pallas_credentials.settings import keys_of
from pallas_lookups.cache import open_cache
from pallas_postgres.engine import open_engine, ping
from pallas_runtime.run import BROKER, Process
from pallas_runtime.settings import PREFIX
from team_lifecycle.changes import Changes
from team_lifecycle.entry.http import make_http
from team_lifecycle.entry.lookups import answer_lookups
from team_lifecycle.entry.parts import Parts
from team_lifecycle.handlers.keys import ensure_current_key
from team_lifecycle.health import Needs
from team_lifecycle.metrics import make_metrics
from team_lifecycle.migrate import MIGRATIONS
from team_lifecycle.model import Who
from team_lifecycle.relay import Relay, watch_lag
from team_lifecycle.settings import TeamLifecycleSettings
from team_lifecycle.signing import Seal

log = logging.getLogger(__name__)

RETRY = 0.5
IDLE_SECONDS = 4
"""After which Postgres ends a transaction in which nothing is said: less than others wait for its locks, so a replica
that freezes within a change only delays theirs."""


@dataclass(frozen=True)
class TeamLifecycle:
    """The service at work."""

    http: ASGIApp

    async def drain(self) -> None:
        """Nothing is under way but requests, which the HTTP server finishes; events wait in Postgres."""


@asynccontextmanager
async def build(
    settings: TeamLifecycleSettings, process: Process, *, protect: bool = True
) -> AsyncGenerator[TeamLifecycle]:
    """Bring the tables up to date, and serve. Without `protect` readers can be stale: only to show what that is for.

    Raises:
        Rejected: there is no Fernet key.
    """
    keys = keys_of(settings.fernet_keys)
    if not keys:
        raise Rejected("PALLAS_FERNET_KEYS: must be set, it encrypts the signing keys", code="bad_settings")
    seal, metrics, committed = Seal(keys), make_metrics(process.probes.metrics), asyncio.Event()
    async with AsyncExitStack() as stack:
        url = settings.postgres_url.get_secret_value()
        idle = {"idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s"}
        engine = open_engine(url, pool=settings.postgres_pool, service="team-lifecycle", options=idle)
        stack.push_async_callback(engine.dispose)
        cache = await stack.enter_async_context(open_cache(settings.redis_url.get_secret_value(), protect=protect))
        needs = Needs({"postgres": partial(ping, engine), "redis": cache.check})
        for word in needs.pings:
            process.probes.checks[word] = partial(needs.missing, word)
        await _spawn(stack, process, needs.watch(), "look at what is needed")
        changes = Changes(engine, cache, metrics, committed.set)
        await _prepare(engine, changes, settings, seal, process)
        await _spawn(stack, process, changes.look_around(), "settle what changes have left")
        await _spawn(stack, process, watch_lag(engine, metrics), "measure what was not sent")
        speak = _speak(settings, process, engine, committed)
        await _spawn(stack, process, speak, "events and look-ups")
        _warn_of_closed_accounts(settings)
        parts = Parts(engine, changes, seal, settings.jwt_algorithm)
        service, admin = settings.service_password_hash, settings.admin_password_hash
        yield TeamLifecycle(
            make_http(
                parts,
                service_hash=service.get_secret_value() if service else None,
                admin_hash=admin.get_secret_value() if admin else None,
            )
        )


async def _spawn(stack: AsyncExitStack, process: Process, work: Coroutine[None, None, None], name: str) -> None:
    """Run `work` until the stack is left; the process ends with it."""
    task = process.vital(asyncio.create_task(work, name=name))

    async def end() -> None:
        task.cancel()
        await asyncio.wait({task})

    stack.push_async_callback(end)


async def _prepare(
    engine: AsyncEngine, changes: Changes, settings: TeamLifecycleSettings, seal: Seal, process: Process
) -> None:
    """Wait for Postgres, make the tables, and a key if there is none to sign with."""
    told = False
    while True:
        try:
            await MIGRATIONS.run(engine)
            who = Who("team-lifecycle", process.instance)
            decide = partial(ensure_current_key, algorithm=settings.jwt_algorithm, seal=seal)
            await changes.make(who, decide, alone=True)
        except Unavailable as error:
            if not told:
                log.warning("waiting for the database", extra={"reason": error.message})
                told = True
            await asyncio.sleep(RETRY)
        else:
            return


async def _speak(
    settings: TeamLifecycleSettings, process: Process, engine: AsyncEngine, committed: asyncio.Event
) -> None:
    """Answer look-ups and relay events, from when the broker is there."""
    connected: list[Bus] = []
    process.probes.checks["broker"] = lambda: None if connected and connected[0].connected else "not connected"
    access = Access.of(settings)
    async with (
        connect_when_possible(access, LIFECYCLE, instance=process.instance) as bus,
        process.without(bus.closed, BROKER),
    ):
        connected.append(bus)
        service = await answering(bus, description="who may read what")
        await answer(bus, service, LOOK_UP, partial(answer_lookups, engine=engine))
        await Relay(bus, engine, committed, settings.stream_replicas).run()


def _warn_of_closed_accounts(settings: TeamLifecycleSettings) -> None:
    for name in ("service_password_hash", "admin_password_hash"):
        if getattr(settings, name) is None:
            log.warning("an account is closed: it has no password", extra={"setting": f"{PREFIX}{name.upper()}"})
