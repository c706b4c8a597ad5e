"""The metrics of the service."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from pallas_postgres.figures import PostgresFigures, make_figures


@dataclass(frozen=True)
class RedisFigures:
    """What Redis says about itself. While it does not answer, all but `up` have no value."""

    up: Gauge
    memory: Gauge
    memory_limit: Gauge
    connections: Gauge
    refused: Gauge

    def show(self, info: Mapping[str, Any] | None) -> None:
        """Show the answer to `INFO`; None: there is none."""
        self.up.set(info is not None)
        info = info or {}
        self.memory.set(info.get("used_memory", math.nan))
        self.memory_limit.set(info.get("maxmemory", math.nan))
        self.connections.set(info.get("connected_clients", math.nan))
        self.refused.set(info.get("rejected_connections", math.nan))


@dataclass(frozen=True)
class Metrics:
    """The instruments. Made by `make_metrics`."""

    changes: Counter
    unsent: Gauge
    lag: Gauge
    postgres: PostgresFigures
    redis: RedisFigures


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    return Metrics(
        Counter("pallas_lifecycle_changes_total", "Changes that were committed", ["kind", "action"], registry=registry),
        Gauge("pallas_lifecycle_unsent_events", "Events that wait for the broker", registry=registry),
        Gauge(
            "pallas_lifecycle_lag_seconds",
            "Age of the oldest event that waits for the broker",
            registry=registry,
        ),
        make_figures(registry),
        _redis_figures(registry),
    )


def _redis_figures(registry: CollectorRegistry) -> RedisFigures:
    return RedisFigures(
        Gauge("pallas_redis_up", "1 when Redis answers, else 0", registry=registry),
        Gauge("pallas_redis_memory_bytes", "Memory that Redis takes", registry=registry),
        Gauge("pallas_redis_memory_limit_bytes", "Memory that it may take; 0 is no limit", registry=registry),
        Gauge("pallas_redis_connections", "Connections to Redis", registry=registry),
        Gauge("pallas_redis_refused_connections", "Connections that it has refused since its start", registry=registry),
    )
