"""Resolvers as their processes build them, in the test's process, with a real broker and Redis.

The truth is a dictionary here, so that a row can be anything. `tests/integration/stale` has the real one.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.integration.auth_resolver.bearers import FERNET_KEY, KEYS, Opaque, teams

from auth_resolver.app import build
from auth_resolver.settings import AuthResolverSettings
from pallas_bus.ask import answer, answering, ask
from pallas_bus.connection import Bus
from pallas_contracts.auth import AUTH_FAILURES, LookedUp, LookupKey, Lookups, Record, ResolveBearer, Resolved
from pallas_contracts.catalog import LOOK_UP, RESOLVE
from pallas_contracts.errors import Unavailable
from pallas_runtime.probes import Probes
from pallas_runtime.process import Process
from pallas_runtime.run import Served


@dataclass
class Truth:
    """A stand-in for team-lifecycle. `asked` has the questions so far. While it is `away` it answers none."""

    rows: dict[LookupKey, Record] = field(default_factory=dict[LookupKey, Record])
    version: int = 1
    asked: list[tuple[LookupKey, ...]] = field(default_factory=list[tuple[LookupKey, ...]])
    away: bool = False
    held: asyncio.Event | None = None

    def know(self, *tokens: Opaque) -> None:
        """Add opaque tokens."""
        self.rows |= {token.key: token.record for token in tokens}

    async def __call__(self, question: Lookups) -> LookedUp:
        """Answer a question. If there is an event `held`, wait until it is set."""
        self.asked.append(question.wanted)
        if self.away:
            raise Unavailable("the database cannot be used right now", code="no_database")
        if self.held is not None:
            await self.held.wait()
        return LookedUp(version=self.version, records=tuple(self.rows.get(key) for key in question.wanted))


def some_rows() -> dict[LookupKey, Record]:
    """The keys and teams that every test starts with."""
    rows: dict[LookupKey, Record] = {LookupKey(kind="key", id=key.kid): key.record for key in KEYS}
    return rows | {LookupKey(kind="team", id=team.id): team for team in teams()}


@asynccontextmanager
async def a_truth(bus: Bus) -> AsyncGenerator[Truth]:
    """A stand-in for team-lifecycle that answers on this connection."""
    truth, service = Truth(some_rows()), await answering(bus)
    await answer(bus, service, LOOK_UP, truth)
    yield truth
    await service.stop()


@dataclass(frozen=True)
class Replica:
    """A running resolver."""

    process: Process
    service: Served

    def measured(self, metric: str, **labels: str) -> float:
        """The value of a metric."""
        return self.process.probes.metrics.get_sample_value(metric, labels) or 0.0

    def failures(self) -> dict[str, float]:
        """How often each reason was counted."""
        counted = {reason: self.measured("mcp_auth_failures_total", reason=reason) for reason in AUTH_FAILURES}
        return {reason: count for reason, count in counted.items() if count}


@asynccontextmanager
async def a_resolver(nats_url: str, redis_url: str, **settings: str) -> AsyncGenerator[Replica]:
    """Run a resolver. `settings` are variables without their prefix."""
    environ = {
        "PALLAS_NATS_URL": nats_url,
        "PALLAS_REDIS_URL": redis_url,
        "PALLAS_FERNET_KEYS": FERNET_KEY,
        **{f"PALLAS_{name.upper()}": value for name, value in settings.items()},
    }
    process = Process("auth-resolver", f"resolver-{uuid.uuid4().hex[:8]}", 0, Probes())
    async with build(AuthResolverSettings.from_env(environ), process) as service:
        yield Replica(process, service)


async def resolved(gateway: Bus, bearer: str, *, uses_up: bool = False) -> Resolved:
    """Ask as a gateway does."""
    return await ask(gateway, RESOLVE, ResolveBearer(bearer=bearer, uses_up=uses_up))
