"""Generates `docs/metrics.md` from the metrics of the services."""

from itertools import groupby

from deploy.observability.exposed import Exposed, exposed

_BEFORE = """\
# Metrics

Every process serves `GET /metrics` on its port in the text format of Prometheus, without authentication. It exposes
the metrics below, and those of the process and of Python (`process_*`, `python_*`). `deploy/observability` has
recording rules, alerts, a Grafana dashboard and the configuration of Prometheus. [The runbook](runbook.md) says what
to do when an alert fires.

- Names and units follow Prometheus: seconds, bytes, `_total` for counters.
- No label has an id of a turn, a caller or a conversation. `client` is the program that an agent's label names, with
  six digits of a keyed hash of the label; the first 100 have series. `team` and `agent` name agents of the catalogue
  (for a worker: the agents that it hosts). Their series start at 0 when the agent appears and end with it. In a
  process that knows more than 250 agents, those of the others start with the first count, which a rate then misses.
- The label `instance` of `daedalus_agent_health` is the name of a registered Pallas instance, as the interface contract
  wants it. Prometheus has a label of that name for replicas, so it stores this one as `exported_instance`.
- `model` is the model as a team folder names it; of a worker, the first 100 have series, and the others are `other`.
  `provider` is one of those that can be configured. An agent with one model has about 20 series at each worker that
  hosts it: 12 for its steps, 3 for its tokens, 2 for its tools, and one each for cost and outcome, with another one for
  each kind of failure that was seen. There are 15 for each model, and at most 6 for each provider.
- A turn is counted once, by the process that writes its outcome: the worker, or the gateway if the turn was cancelled
  before a worker claimed it. Turns that the command line ends are not counted, because it has no `/metrics`.
- `over replicas` is how to aggregate a metric over replicas. Counters and histograms are summed. A gauge of something
  that exists once (a queue, an agent's health) is reported by each replica, so it is not summed."""


def document() -> str:
    """The whole document."""
    parts = [_BEFORE]
    for service, metrics in groupby(exposed(), key=lambda metric: metric.service):
        parts += [f"\n## {service}", "| metric | type | labels | over replicas | meaning |", "|---|---|---|---|---|"]
        parts += [_row(metric) for metric in metrics]
    return "\n".join(parts) + "\n"


def _row(metric: Exposed) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.together} | {metric.meaning} |"
