"""Metrics of the monitor. They describe the whole platform, so take the worst over its replicas, not the sum."""

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, Histogram

from health_monitor.broker_metrics import BrokerMetrics, make_broker_metrics
from pallas_contracts.health import AgentHealth, ProbeResult
from pallas_runtime.metrics import AGENT
from pallas_turns.queue import QueueDepth, StreamDepth

_VALUES = {"ok": 1.0, "degraded": 0.5, "error": 0.0}


@dataclass(frozen=True)
class Metrics:
    """The instruments. Made by `make_metrics`."""

    probe_up: Gauge
    probe_seconds: Histogram
    agent_health: Gauge
    agent_workers: Gauge
    folder_faults: Gauge
    turns_waiting: Gauge
    turns_running: Gauge
    team_slots: Gauge
    stream_messages: Gauge
    stream_bytes: Gauge
    broker: BrokerMetrics
    spending_lag: Gauge

    def probed(self, result: ProbeResult) -> None:
        """Show a result. What a worker reports of its own servers took no time here."""
        self.probe_up.labels(result.kind, result.name, result.key).set(result.error is None)
        if result.kind != "stdio":
            self.probe_seconds.labels(result.kind).observe(result.duration_ms / 1000)

    def judged(self, health: AgentHealth) -> None:
        """Show an agent's health, and by how many workers it can be run."""
        self.agent_health.labels(health.team, health.agent).set(_VALUES[health.status])
        self.agent_workers.labels(health.team, health.agent).set(health.workers)

    def forget_agent(self, team: str, agent: str) -> None:
        """An agent is gone."""
        for metric in (self.agent_health, self.agent_workers):
            metric.remove_by_labels({"team": team, "agent": agent})

    def forget_probe(self, key: str) -> None:
        """No agent has the dependency any more."""
        self.probe_up.remove_by_labels({"key": key})

    def folder_read(self, folder: str, faults: int) -> None:
        """A team folder has been read."""
        self.folder_faults.labels(folder).set(faults)

    def queues_read(self, depths: Mapping[tuple[str, str], QueueDepth]) -> None:
        """Show the queues of these agents, and of no others."""
        for metric in (self.turns_waiting, self.turns_running):
            metric.clear()
        for agent, depth in depths.items():
            self.turns_waiting.labels(*agent).set(depth.waiting)
            self.turns_running.labels(*agent).set(depth.running)

    def teams_read(self, slots: Mapping[str, int]) -> None:
        """Show how many slots these teams need, and no others."""
        self.team_slots.clear()
        for team, wanted in slots.items():
            self.team_slots.labels(team).set(wanted)

    def streams_read(self, depths: Mapping[str, StreamDepth]) -> None:
        """Show these streams, and no others."""
        for metric in (self.stream_messages, self.stream_bytes):
            metric.clear()
        for stream, depth in depths.items():
            self.stream_messages.labels(stream).set(depth.messages)
            self.stream_bytes.labels(stream).set(depth.bytes)


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    return Metrics(
        Gauge("pallas_probe_up", "1 when the dependency answers, else 0", ["kind", "name", "key"], registry=registry),
        Histogram(
            "pallas_probe_duration_seconds",
            "Time that a probe took",
            ["kind"],
            registry=registry,
            buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 3),
        ),
        Gauge("pallas_agent_health", "Health of an agent: 1 ok, 0.5 degraded, 0 error", AGENT, registry=registry),
        Gauge("pallas_agent_workers", "Workers that can run the agent", AGENT, registry=registry),
        Gauge("pallas_team_folder_faults", "Faults found in a team folder", ["folder"], registry=registry),
        Gauge("pallas_queue_turns_waiting", "Turns that no worker has yet", AGENT, registry=registry),
        Gauge("pallas_queue_turns_running", "Turns that a worker has", AGENT, registry=registry),
        Gauge(
            "pallas_team_slots_wanted", "Slots that a team's workers need for its turns", ["team"], registry=registry
        ),
        Gauge("pallas_stream_messages", "Messages in a stream of the broker", ["stream"], registry=registry),
        Gauge("pallas_stream_bytes", "Size of a stream of the broker", ["stream"], registry=registry),
        make_broker_metrics(registry),
        Gauge("pallas_spending_lag_seconds", "Age of what budgets know of the log", registry=registry),
    )
