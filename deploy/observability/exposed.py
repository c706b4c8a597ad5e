"""The metrics that the services expose at `/metrics`, read from the services' code."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from pallas_runtime.probes import Probes

ROOT = Path(__file__).parents[2]
EVERY_PROCESS = "every process"

type Together = Literal["sum", "max", "min"]

GAUGES: dict[str, Together] = {
    "pallas_ready": "sum",
    "pallas_build_info": "max",
    "pallas_turns_in_flight": "sum",
    "pallas_budget_used_ratio": "max",
    "pallas_worker_slots": "sum",
    "pallas_worker_busy_slots": "sum",
    "pallas_turns_held": "max",
    "pallas_probe_up": "min",
    "pallas_agent_health": "min",
    "pallas_agent_workers": "max",
    "pallas_team_folder_faults": "max",
    "pallas_queue_turns_waiting": "max",
    "pallas_queue_turns_running": "max",
    "pallas_team_slots_wanted": "max",
    "pallas_stream_messages": "max",
    "pallas_stream_bytes": "max",
    "pallas_broker_up": "max",
    "pallas_broker_cluster_size": "max",
    "pallas_broker_connections": "max",
    "pallas_broker_memory_bytes": "max",
    "pallas_broker_store_bytes": "max",
    "pallas_broker_store_limit_bytes": "max",
    "pallas_stream_leaderless": "max",
    "pallas_stream_leader": "max",
    "pallas_stream_replica_lag": "max",
    "pallas_postgres_up": "max",
    "pallas_postgres_connections": "max",
    "pallas_postgres_connection_limit": "max",
    "pallas_postgres_database_bytes": "max",
    "pallas_postgres_oldest_transaction_seconds": "max",
    "pallas_redis_up": "max",
    "pallas_redis_memory_bytes": "max",
    "pallas_redis_memory_limit_bytes": "max",
    "pallas_redis_connections": "max",
    "pallas_redis_refused_connections": "max",
    "pallas_spending_lag_seconds": "min",
    "pallas_lifecycle_unsent_events": "max",
    "pallas_lifecycle_lag_seconds": "max",
    "pallas_pool_connected_agents": "sum",
    "pallas_fleet_agents": "max",
    "pallas_workspaces_unsent_events": "max",
    "pallas_workspaces_lag_seconds": "max",
    "pallas_workspaces_listening": "min",
    "pallas_workspaces_waiting_teams": "max",
    "pallas_workspaces_replies_in_progress": "sum",
    "pallas_workspaces_replies_unowned": "max",
    "pallas_workspaces_event_streams": "sum",
    "daedalus_agent_health": "min",
}
"""How a gauge is aggregated over replicas: what exists once is measured by each of them. Others: summed."""


@dataclass(frozen=True)
class Exposed:
    """One metric of Prometheus."""

    service: str
    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def together(self) -> Together:
        """How it is aggregated over replicas."""
        return GAUGES[self.name] if self.kind == "gauge" else "sum"

    @property
    def series(self) -> frozenset[str]:
        """The names of its series in expressions."""
        suffixes = ("_bucket", "_sum", "_count") if self.kind == "histogram" else ("",)
        return frozenset(self.name + suffix for suffix in suffixes)


class _Recording(CollectorRegistry):
    """A registry that remembers what was registered."""

    def __init__(self) -> None:
        self.collectors: list[Collector] = []
        super().__init__()

    def register(self, collector: Collector) -> None:
        """Register and remember a collector."""
        self.collectors.append(collector)
        super().register(collector)


@cache
def exposed() -> tuple[Exposed, ...]:
    """The metrics of Pallas itself, by service."""
    found = list(_of(EVERY_PROCESS, None))
    for service in sorted(path.name for path in (ROOT / "services").iterdir()):
        module = service.replace("-", "_")
        if (ROOT / "services" / service / "src" / module / "metrics.py").exists():
            found += _of(service, importlib.import_module(f"{module}.metrics"))
    return tuple(found)


def _of(service: str, measures: Any) -> Iterator[Exposed]:
    recording = _Recording()
    if measures is None:
        Probes(recording)
    else:
        measures.make_metrics(recording)
    for collector in recording.collectors:
        [described] = collector.collect()
        labels: tuple[str, ...] = vars(collector)["_labelnames"]
        name = described.name + ("_total" if described.type == "counter" else "")
        yield Exposed(service, name, described.type, labels, described.documentation)
