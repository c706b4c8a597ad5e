"""Metrics of answers: their time by cache verdict, and refusals by reason."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram

from auth_resolver.lookups import Verdict
from pallas_contracts.auth import AUTH_FAILURES, ResolveBearer, Resolved
from pallas_contracts.errors import Denied, PallasError
from pallas_runtime.metrics import auth_failures

FAILED = "failed"
"""The verdict if there is no answer, because a dependency is away."""

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


@dataclass(frozen=True)
class Metrics:
    """The instruments. Made by `make_metrics`; `seconds` are by verdict."""

    failures: Counter
    seconds: Mapping[str, Histogram]


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    seconds = Histogram(
        "pallas_auth_resolve_seconds",
        "Time to resolve a bearer, by what the cache had",
        ["cache"],
        registry=registry,
        buckets=_BUCKETS,
    )
    verdicts: tuple[str, ...] = (*get_args(Verdict.__value__), FAILED)
    return Metrics(auth_failures(registry, AUTH_FAILURES), {verdict: seconds.labels(verdict) for verdict in verdicts})


class Measured:
    """Counts and times what a resolver answers and refuses."""

    def __init__(self, resolve: Callable[[ResolveBearer], Awaitable[Resolved]], metrics: Metrics) -> None:
        self._resolve = resolve
        self._metrics = metrics

    async def __call__(self, question: ResolveBearer) -> Resolved:
        """Resolve a bearer."""
        began = time.perf_counter()
        try:
            resolved = await self._resolve(question)
        except Denied as error:
            self._metrics.failures.labels(error.code).inc()
            raise
        except PallasError:
            self._metrics.seconds[FAILED].observe(time.perf_counter() - began)
            raise
        self._metrics.seconds[resolved.cache].observe(time.perf_counter() - began)
        return resolved
