"""`docs/metrics.md`, out of what the services expose."""

from itertools import groupby

from deploy.observability.exposed import Exposed, exposed

_BEFORE = """\
# Metrics

Every process answers `GET /metrics` on its port, without a credential, in the text format of Prometheus. Besides the
metrics below each has those of its process and of Python (`process_*`, `python_*`). What is derived from them is in
`deploy/observability`: recording rules and alerts, a dashboard for Grafana, and what Prometheus has to be told; what to
do when an alert fires is in [the runbook](runbook.md).

- Names and units are Prometheus's own: seconds, bytes, `_total` for what only grows.
- No label holds an id of a turn, a caller or a conversation. `team` and `agent` are those of agents that are in the
  catalogue (of a worker: that it hosts); their series begin at 0 when the agent comes and go with it.
- A turn is counted once, by whoever writes its outcome: the worker, or the gateway when it was cancelled before any
  worker had it. Turns that are ended by the command line, which has no `/metrics`, are not counted.
- `together` is what is right over replicas. Counters and histograms are summed. Gauges of what there is only once (a
  queue, an agent's health) are told by each replica, so they are not."""


def document() -> str:
    """The whole text."""
    parts = [_BEFORE]
    for service, metrics in groupby(exposed(), key=lambda metric: metric.service):
        parts += [f"\n## {service}", "| metric | type | labels | together | means |", "|---|---|---|---|---|"]
        parts += [_row(metric) for metric in metrics]
    return "\n".join(parts) + "\n"


def _row(metric: Exposed) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.together} | {metric.meaning} |"
