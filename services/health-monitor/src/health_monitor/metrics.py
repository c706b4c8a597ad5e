"""What the monitor measures."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, Histogram

from pallas_contracts.health import AgentHealth, ProbeResult

_VALUES = {"ok": 1.0, "degraded": 0.5, "error": 0.0}


@dataclass(frozen=True)
class Metrics:
    """The instruments. Made by `make_metrics`."""

    probe_up: Gauge
    probe_seconds: Histogram
    agent_health: Gauge
    folder_faults: Gauge

    def probed(self, result: ProbeResult) -> None:
        """Show a result. What a worker reports of its own servers took no time here."""
        self.probe_up.labels(result.kind, result.name, result.key).set(result.error is None)
        if result.kind != "stdio":
            self.probe_seconds.labels(result.kind).observe(result.duration_ms / 1000)

    def judged(self, health: AgentHealth) -> None:
        """Show an agent's health."""
        self.agent_health.labels(health.team, health.agent).set(_VALUES[health.status])

    def forget_agent(self, team: str, agent: str) -> None:
        """An agent is gone."""
        self.agent_health.remove_by_labels({"team": team, "agent": agent})

    def forget_probe(self, key: str) -> None:
        """A dependency is nobody's any more."""
        self.probe_up.remove_by_labels({"key": key})

    def folder_read(self, folder: str, faults: int) -> None:
        """A team folder has been read."""
        self.folder_faults.labels(folder).set(faults)


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    return Metrics(
        Gauge("pallas_probe_up", "1 when the dependency answers", ["kind", "name", "key"], registry=registry),
        Histogram(
            "pallas_probe_duration_seconds",
            "how long probes take",
            ["kind"],
            registry=registry,
            buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 3),
        ),
        Gauge("pallas_agent_health", "1 ok, 0.5 degraded, 0 error", ["team", "agent"], registry=registry),
        Gauge("pallas_team_folder_faults", "faults found in a team folder", ["folder"], registry=registry),
    )
