"""`/health…` and `/metrics`: what everyone may read."""

import math
import time

from prometheus_client import CollectorRegistry
from starlette.responses import Response

from pallas_contracts.agents import JsonObject
from pallas_runtime.probes import Probes
from pipelines.http.answers import answer


def public_answer(path: str, probes: Probes) -> Response | None:
    """The answer to a GET of a public path; None if there is no such path.

    `/metrics` as Prometheus reads it is answered by the process, where the `Accept` header asks for text.
    """
    match path:
        case "/health":
            return answer({"status": "draining"}, 503) if probes.draining else answer({"status": "ok"})
        case "/health/live":
            return answer({"status": "alive"})
        case "/health/ready":
            return answer({"status": "not_ready"}, 503) if probes.missing() else answer({"status": "ready"})
        case "/metrics":
            return answer({"timestamp": round(time.time() * 1000), "metrics": metrics_document(probes.metrics)})
        case _:
            return None


def metrics_document(registry: CollectorRegistry) -> JsonObject:
    """The metrics as JSON, by the names of their series."""
    found: JsonObject = {}
    for metric in registry.collect():
        for sample in metric.samples:
            value = sample.value if math.isfinite(sample.value) else None
            found.setdefault(sample.name, []).append({"labels": sample.labels, "value": value})
    return found
