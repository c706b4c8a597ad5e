"""The metrics of the service."""

from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from pallas_postgres.figures import PostgresFigures, make_figures


@dataclass(frozen=True)
class Metrics:
    """The instruments. Made by `make_metrics`."""

    changes: Counter
    logins: Counter
    unsent: Gauge
    lag: Gauge
    listening: Gauge
    hook_runs: Counter
    due_hooks: Gauge
    replies: Counter
    taken_over: Counter
    answering: Gauge
    unowned: Gauge
    streams: Gauge
    agent_health: Gauge
    postgres: PostgresFigures


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
    return Metrics(
        counter("pallas_workspaces_changes_total", "Changes that were committed", ["kind", "action"]),
        counter("pallas_workspaces_logins_total", "Logins by their end", ["how", "end"]),
        gauge("pallas_workspaces_unsent_events", "Events that wait for the broker"),
        gauge("pallas_workspaces_lag_seconds", "Age of the oldest event that waits for the broker"),
        gauge("pallas_workspaces_listening", "1 while this replica hears what the others tell browsers"),
        counter(
            "pallas_workspaces_hook_runs_total",
            "Times that Mnemosyne was told about a team, or could not be",
            ["hook", "end"],
        ),
        gauge("pallas_workspaces_due_hooks", "Teams about which Mnemosyne has yet to be told"),
        counter("pallas_workspaces_replies_total", "Replies of agents by their end", ["status"]),
        counter("pallas_workspaces_replies_taken_over_total", "Replies taken over from lost replicas"),
        gauge("pallas_workspaces_replies_in_progress", "Replies that this replica calls agents for"),
        gauge(
            "pallas_workspaces_replies_unowned",
            "Replies that have not ended and that wait for a replica for half a minute",
        ),
        gauge("pallas_workspaces_event_streams", "Open event streams of browsers"),
        gauge(
            "daedalus_agent_health",
            "Health of an agent as this replica has seen it last: 1 ok, 0.5 degraded, 0 error",
            ["instance", "agent"],
        ),
        make_figures(registry),
    )
