"""The Grafana dashboard: rows of panels with their expressions."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deploy.observability.exposed import exposed

PATH = "deploy/observability/grafana/dashboards/pallas.json"
_SOURCE = {"type": "prometheus", "uid": "prometheus"}
_CHOSEN = 'team=~"$team", agent=~"$agent"'
_OF_AGENT = f"{{{_CHOSEN}}}"
_AGAIN = f'{{{_CHOSEN}, attempt="again"}}'
_TASKS = '{team="fleet", agent="tasks"}'
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3


@dataclass(frozen=True)
class Panel:
    """One graph: expressions by legend. `unit` is a unit of Grafana."""

    title: str
    unit: str
    lines: dict[str, str]


def rate(counter: str, *by: str, of: str = "") -> str:
    """Events per second, over all replicas."""
    return f"sum{_by(by)} (rate({counter}{of}[$__rate_interval]))"


def quantile(share: float, histogram: str, *by: str, of: str = "") -> str:
    """A quantile of a duration, over all replicas."""
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', *by, 'le', of=of)})"


def level(gauge: str, *by: str, of: str = "") -> str:
    """A gauge, aggregated over all replicas."""
    [together] = {metric.together for metric in exposed() if metric.name == gauge}
    return f"{together}{_by(by)} ({gauge}{of})"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""


def _latency(title: str, histogram: str, *by: str, of: str = "") -> Panel:
    legend = " ".join(f"{{{{{label}}}}}" for label in by)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    lines = {f"{name} {legend}": quantile(share, histogram, *by, of=of) for name, share in shares.items()}
    return Panel(title, "s", lines)


_NAME = "{{team}}/{{agent}}"

_SPENT = rate("pallas_model_cost_total", "team", "agent", "currency", of=_OF_AGENT)
_RUNNING = "count by (job, version, revision) (pallas_build_info)"

ROWS: dict[str, tuple[Panel, ...]] = {
    "Objectives": (
        Panel("Turns accepted", "ops", {"accepted": rate("pallas_turns_accepted_total")}),
        Panel("Bad turns of an hour, by objective", "percentunit", {"{{slo}}": "slo:pallas_errors:ratio_rate1h"}),
        Panel("Bad turns of three days, by objective", "percentunit", {"{{slo}}": "slo:pallas_errors:ratio_rate3d"}),
    ),
    "Turns": (
        Panel("Turns ended, by outcome", "ops", {"{{outcome}}": rate("pallas_turns_total", "outcome", of=_OF_AGENT)}),
        _latency("From request to outcome", "pallas_turn_duration_seconds", "team", "agent", of=_OF_AGENT),
        _latency("Wait in the queue", "pallas_turn_queue_wait_seconds", "team", "agent", of=_OF_AGENT),
        Panel(
            "Turns waiting and running",
            "short",
            {
                f"waiting {_NAME}": level("pallas_queue_turns_waiting", "team", "agent", of=_OF_AGENT),
                f"running {_NAME}": level("pallas_queue_turns_running", "team", "agent", of=_OF_AGENT),
            },
        ),
        Panel("Turns failed, by code", "ops", {"{{code}}": rate("pallas_turn_failures_total", "code", of=_OF_AGENT)}),
        Panel(
            "Attempts again and dead letters",
            "ops",
            {
                f"again {_NAME}": rate("pallas_turn_attempts_total", "team", "agent", of=_AGAIN),
                f"dead letter {_NAME}": rate("pallas_dead_letters_total", "team", "agent", of=_OF_AGENT),
            },
        ),
    ),
    "Gateways": (
        Panel("Turns in flight", "short", {"{{instance}}": level("pallas_turns_in_flight", "instance")}),
        Panel(
            "Calls refused, by reason",
            "ops",
            {"{{reason}}": rate("pallas_calls_refused_total", "reason", of=_OF_AGENT)},
        ),
        Panel("Requests at /rpc", "ops", {"{{method}} {{code}}": rate("pallas_rpc_requests_total", "method", "code")}),
        Panel(
            "Requests to pipelines",
            "ops",
            {"{{client}} {{code}}": rate("pallas_pipeline_requests_total", "client", "code")},
        ),
        Panel("Events relayed", "ops", {_NAME: rate("pallas_events_relayed_total", "team", "agent", of=_OF_AGENT)}),
        Panel(
            "Calls joined, streams resumed, clients gone",
            "ops",
            {
                "joined": rate("pallas_turns_joined_total"),
                "resumed": rate("pallas_streams_resumed_total"),
                "gone": rate("pallas_clients_gone_total"),
                "not allowed": rate("pallas_callers_refused_total"),
            },
        ),
    ),
    "Workers and agents": (
        Panel(
            "Slots",
            "short",
            {
                "slots {{job}}": level("pallas_worker_slots", "job"),
                "busy {{job}}": level("pallas_worker_busy_slots", "job"),
                "wanted {{team}}": level("pallas_team_slots_wanted", "team"),
            },
        ),
        Panel("Workers by agent", "short", {_NAME: level("pallas_agent_workers", "team", "agent", of=_OF_AGENT)}),
        Panel(
            "Health: 1 ok, 0.5 degraded, 0 error",
            "short",
            {_NAME: level("pallas_agent_health", "team", "agent", of=_OF_AGENT)},
        ),
        Panel("Dependencies that answer", "short", {"{{kind}} {{name}}": level("pallas_probe_up", "kind", "name")}),
        _latency("Probes", "pallas_probe_duration_seconds", "kind"),
        Panel("Faults in team folders", "short", {"{{folder}}": level("pallas_team_folder_faults", "folder")}),
    ),
    "Models and costs": (
        Panel("Tokens", "ops", {"{{team}} {{kind}}": rate("pallas_model_tokens_total", "team", "kind", of=_OF_AGENT)}),
        Panel(
            "Money an hour, in units of the currency",
            "short",
            {f"{_NAME} {{{{currency}}}}": f"3600 * {_SPENT}"},
        ),
        Panel(
            "Calls of models without a price",
            "ops",
            {"{{model}}": rate("pallas_model_unpriced_calls_total", "model", of=_OF_AGENT)},
        ),
        _latency("Answers of models", "pallas_model_call_seconds", "model"),
        Panel(
            "Calls of models, by outcome",
            "ops",
            {"{{model}} {{outcome}}": rate("pallas_model_calls_total", "model", "outcome", of=_OF_AGENT)},
        ),
        Panel(
            "Responses of providers",
            "ops",
            {"{{provider}} {{code}}": rate("pallas_provider_responses_total", "provider", "code")},
        ),
        Panel(
            "Calls of tools, by outcome",
            "ops",
            {f"{_NAME} {{{{outcome}}}}": rate("pallas_tool_calls_total", "team", "agent", "outcome", of=_OF_AGENT)},
        ),
        Panel(
            "Steps of an attempt",
            "short",
            {
                f"{name} {_NAME}": quantile(share, "pallas_attempt_steps", "team", "agent", of=_OF_AGENT)
                for name, share in {"p50": 0.5, "p95": 0.95}.items()
            },
        ),
        Panel("Used part of today's budget", "percentunit", {"{{team}}": level("pallas_budget_used_ratio", "team")}),
        Panel("Budgets are behind the log by", "s", {"behind": level("pallas_spending_lag_seconds")}),
    ),
    "Data agents": (
        Panel("Connected agents", "short", {"{{instance}}": level("pallas_pool_connected_agents", "instance")}),
        Panel("Heartbeats", "ops", {"heartbeats": rate("pallas_pool_heartbeats_total")}),
        Panel("Answers that belong to no call", "ops", {"{{kind}}": rate("pallas_pool_stray_answers_total", "kind")}),
    ),
    "Coding agents": (
        Panel("Coding agents by status", "short", {"{{status}}": level("pallas_fleet_agents", "status")}),
        Panel(
            "Requests to Coder and terminals",
            "ops",
            {"{{kind}} {{code}}": rate("pallas_fleet_requests_total", "kind", "code")},
        ),
        Panel(
            "Tasks waiting and running",
            "short",
            {
                "waiting": level("pallas_queue_turns_waiting", of=_TASKS),
                "running": level("pallas_queue_turns_running", of=_TASKS),
            },
        ),
    ),
    "Who may read what": (
        Panel("Bearers refused, by reason", "ops", {"{{reason}}": rate("mcp_auth_failures_total", "reason")}),
        _latency("Resolving a bearer, by what the cache had", "pallas_auth_resolve_seconds", "cache"),
        _latency("Tools of library-search", "pallas_library_tool_seconds", "tool"),
        Panel("Changes", "ops", {"{{kind}} {{action}}": rate("pallas_lifecycle_changes_total", "kind", "action")}),
        Panel("Age of the oldest unsent change", "s", {"age": level("pallas_lifecycle_lag_seconds")}),
        Panel("Unsent changes", "short", {"changes": level("pallas_lifecycle_unsent_events")}),
    ),
    "Console": (
        Panel(
            "Changes of workspaces and instances",
            "ops",
            {"{{kind}} {{action}}": rate("pallas_workspaces_changes_total", "kind", "action")},
        ),
        Panel("Logins", "ops", {"{{how}} {{end}}": rate("pallas_workspaces_logins_total", "how", "end")}),
        Panel(
            "Changes that the broker does not have yet",
            "short",
            {"changes": level("pallas_workspaces_unsent_events")},
        ),
        Panel("Age of the oldest of them", "s", {"age": level("pallas_workspaces_lag_seconds")}),
        Panel("Replicas hear each other: 1", "short", {"listening": level("pallas_workspaces_listening")}),
        Panel(
            "Health of connected agents: 1 ok, 0.5 degraded, 0 error",
            "short",
            {"{{exported_instance}} {{agent}}": level("daedalus_agent_health", "exported_instance", "agent")},
        ),
        Panel("Teams compared with Mnemosyne by end", "ops", {"{{end}}": rate("pallas_workspaces_syncs_total", "end")}),
        Panel(
            "Teams not known to be in sync with Mnemosyne", "short", {"teams": level("pallas_workspaces_waiting_teams")}
        ),
        Panel("Replies by end", "ops", {"{{status}}": rate("pallas_workspaces_replies_total", "status")}),
        Panel(
            "Replies taken over from lost replicas",
            "ops",
            {"taken over": rate("pallas_workspaces_replies_taken_over_total")},
        ),
        Panel("Replies that no replica has", "short", {"replies": level("pallas_workspaces_replies_unowned")}),
        Panel(
            "Replies in progress, and open event streams",
            "short",
            {
                "replies": level("pallas_workspaces_replies_in_progress"),
                "streams": level("pallas_workspaces_event_streams"),
            },
        ),
    ),
    "Processes and broker": (
        Panel("Ready", "short", {"{{job}}": level("pallas_ready", "job")}),
        Panel("What runs", "short", {"{{job}} {{version}} {{revision}}": _RUNNING}),
        Panel("CPU", "percentunit", {"{{job}}": rate("process_cpu_seconds_total", "job")}),
        Panel("Memory", "bytes", {"{{job}}": "sum by (job) (process_resident_memory_bytes)"}),
        Panel("Messages in streams", "short", {"{{stream}}": level("pallas_stream_messages", "stream")}),
        Panel("Size of streams", "bytes", {"{{stream}}": level("pallas_stream_bytes", "stream")}),
    ),
    "Brokers": (
        Panel("Servers that answer", "short", {"{{server}}": level("pallas_broker_up", "server")}),
        Panel("Streams without a leader: 1", "short", {"{{stream}}": level("pallas_stream_leaderless", "stream")}),
        Panel(
            "Streams led", "short", {"{{server}}": "count by (server) (max by (stream, server) (pallas_stream_leader))"}
        ),
        Panel(
            "Messages that replicas lack",
            "short",
            {"{{stream}} {{server}}": level("pallas_stream_replica_lag", "stream", "server")},
        ),
        Panel(
            "Store",
            "bytes",
            {
                "{{server}}": level("pallas_broker_store_bytes", "server"),
                "limit {{server}}": level("pallas_broker_store_limit_bytes", "server"),
            },
        ),
        Panel(
            "Connections, and those closed as slow consumers",
            "short",
            {
                "{{server}}": level("pallas_broker_connections", "server"),
                "slow {{server}}": "max by (server) (increase(pallas_broker_slow_consumers_total[$__rate_interval]))",
            },
        ),
        Panel("Memory of brokers", "bytes", {"{{server}}": level("pallas_broker_memory_bytes", "server")}),
    ),
    "Postgres and Redis": (
        Panel(
            "Databases and Redis that answer",
            "short",
            {"Postgres of {{job}}": level("pallas_postgres_up", "job"), "Redis": level("pallas_redis_up")},
        ),
        Panel(
            "Connections to Postgres",
            "short",
            {
                "{{job}}": level("pallas_postgres_connections", "job"),
                "limit {{job}}": level("pallas_postgres_connection_limit", "job"),
            },
        ),
        Panel("Size of databases", "bytes", {"{{job}}": level("pallas_postgres_database_bytes", "job")}),
        Panel("Oldest transaction", "s", {"{{job}}": level("pallas_postgres_oldest_transaction_seconds", "job")}),
        Panel(
            "Memory of Redis",
            "bytes",
            {"used": level("pallas_redis_memory_bytes"), "limit": level("pallas_redis_memory_limit_bytes")},
        ),
        Panel(
            "Connections to Redis, and those refused",
            "short",
            {"open": level("pallas_redis_connections"), "refused": level("pallas_redis_refused_connections")},
        ),
    ),
}


def expressions() -> dict[str, str]:
    """Every expression of the dashboard, by panel and legend."""
    panels = [panel for row in ROWS.values() for panel in row]
    return {f"{panel.title}: {legend}": text for panel in panels for legend, text in panel.lines.items()}


def dashboard() -> str:
    """The dashboard as JSON for Grafana."""
    whole = {
        "uid": "pallas",
        "title": "Pallas",
        "tags": ["pallas"],
        "schemaVersion": 39,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_variable("team", ""), _variable("agent", '{team=~"$team"}')]},
        "panels": list(_placed()),
    }
    return json.dumps(whole, indent=1) + "\n"


def _variable(label: str, of: str) -> dict[str, Any]:
    """A variable with the values of a label."""
    return {
        "name": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values(pallas_turns_total{of}, {label})", "refId": label},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _placed() -> Iterator[dict[str, Any]]:
    """Rows and panels with ids and positions, from left to right and from top to bottom."""
    number, y = 0, 0
    for title, panels in ROWS.items():
        number += 1
        place = {"x": 0, "y": y, "w": _WIDTH * _COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        y += 1
        for index, panel in enumerate(panels):
            number += 1
            down, across = divmod(index, _COLUMNS)
            yield _drawn(panel, number, {"x": across * _WIDTH, "y": y + down * _HEIGHT, "w": _WIDTH, "h": _HEIGHT})
        y += -(-len(panels) // _COLUMNS) * _HEIGHT


def _drawn(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": text, "legendFormat": legend}
        for index, (legend, text) in enumerate(panel.lines.items())
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }
