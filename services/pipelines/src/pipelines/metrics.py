"""The metrics of pipelines, besides those of its executor and its calls."""

from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter

from pallas_runtime.metrics import auth_failures
from pallas_turns.metrics import CallMetrics, make_call_metrics
from pallas_turns.metrics import Metrics as ExecutorMetrics
from pallas_turns.metrics import make_metrics as make_executor_metrics

MOST_CLIENTS = 100
"""Clients with a series of their own: the first ones. All others are `other`."""


@dataclass
class RequestMetrics:
    """Requests to the HTTP API, by client: what the header X-Constellation-Agent says, without the name of its user.

    `client` is the part of the header before its colon, and six hex digits of a keyed hash of all of it, as the log of
    turns has it (`digest`).
    """

    requests: Counter
    digest: Callable[[str], str]
    _clients: dict[str, str] = field(default_factory=dict[str, str])

    def count(self, label: str | None, status: int) -> None:
        """Count a request that was answered with a status; 0: its caller has left."""
        self.requests.labels(self._client(label), f"{status // 100}xx" if status else "none").inc()

    def _client(self, label: str | None) -> str:
        if label is None:
            return "none"
        known = self._clients.get(label)
        if known is None and len(self._clients) < MOST_CLIENTS:
            known = self._clients[label] = f"{label.partition(':')[0][:64]}-{self.digest(label)[:6]}"
        return known or "other"


@dataclass(frozen=True)
class Metrics:
    """The instruments, made by `make_metrics`."""

    executor: ExecutorMetrics
    calls: CallMetrics
    auth_failures: Counter
    requests: Counter


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    calls = make_call_metrics(registry)
    executor = make_executor_metrics(registry, calls.turns)
    requests = Counter(
        "pallas_pipeline_requests",
        "Requests to the HTTP API of pipelines, by who sends them and class of status",
        ["client", "code"],
        registry=registry,
    )
    return Metrics(executor, calls, auth_failures(registry, ("missing", "malformed")), requests)
