"""Metrics of Postgres, as the user of a service can see it: no further user, exporter or network path is needed."""

import asyncio
import math
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import reading

INTERVAL = 15.0
"""Seconds between two readings."""

_FIGURES = text("""
select (select sum(numbackends) from pg_stat_database),
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
  pg_database_size(current_database()),
  (select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid())
""")
"""Of transactions, those of the own user: the start of others' is not shown."""


@dataclass(frozen=True)
class PostgresFigures:
    """The instruments. Made by `make_figures`. While Postgres does not answer, all but `up` have no value."""

    up: Gauge
    connections: Gauge
    limit: Gauge
    size: Gauge
    oldest: Gauge

    async def look(self, engine: AsyncEngine) -> None:
        """Read the figures once."""
        gauges = (self.connections, self.limit, self.size, self.oldest)
        try:
            async with reading(engine) as session:
                values = [float(value) for value in (await session.execute(_FIGURES)).one()]
        except Unavailable:
            values = [math.nan] * len(gauges)
        self.up.set(not any(map(math.isnan, values)))
        for gauge, value in zip(gauges, values, strict=True):
            gauge.set(value)

    async def watch(self, engine: AsyncEngine) -> None:
        """Read the figures until cancelled."""
        while True:
            await self.look(engine)
            await asyncio.sleep(INTERVAL)


def make_figures(registry: CollectorRegistry) -> PostgresFigures:
    """Register the instruments."""
    return PostgresFigures(
        Gauge("pallas_postgres_up", "1 when the service's database answers, else 0", registry=registry),
        Gauge("pallas_postgres_connections", "Connections to the server of all clients", registry=registry),
        Gauge("pallas_postgres_connection_limit", "Connections that the server allows", registry=registry),
        Gauge("pallas_postgres_database_bytes", "Size of the service's database", registry=registry),
        Gauge(
            "pallas_postgres_oldest_transaction_seconds",
            "Age of the oldest transaction of the service's user",
            registry=registry,
        ),
    )
