"""The metrics of pipelines, besides those of its executor and its calls."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter

from pallas_calls.metrics import CallMetrics, make_call_metrics
from pallas_executor.metrics import Metrics as ExecutorMetrics
from pallas_executor.metrics import make_metrics as make_executor_metrics
from pallas_runtime.metrics import auth_failures


@dataclass(frozen=True)
class Metrics:
    """The instruments, made by `make_metrics`."""

    executor: ExecutorMetrics
    calls: CallMetrics
    auth_failures: Counter


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    calls = make_call_metrics(registry)
    executor = make_executor_metrics(registry, calls.turns)
    return Metrics(executor, calls, auth_failures(registry, ("missing", "malformed")))
