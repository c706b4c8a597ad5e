"""The last result of every probe. Concurrent callers share a running probe (single flight)."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from health_monitor.broker.publications import Publications
from health_monitor.metrics import Metrics
from health_monitor.probes.mcp_probe import McpProbe
from health_monitor.probes.model_probe import ModelProbe
from health_monitor.probes.targets import McpTarget, Target
from pallas_contracts.health import ProbeResult
from pallas_contracts.message import utc_now


@dataclass
class SharedProbes:
    """Runs probes, stores and publishes their results; `results` is by key."""

    mcp: McpProbe
    model: ModelProbe
    publications: Publications
    metrics: Metrics
    results: dict[str, ProbeResult] = field(default_factory=dict[str, ProbeResult])
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])

    async def run(self, targets: Iterable[Target], *, within: float | None = None) -> None:
        """Probe all targets at once and wait for them, at most `within` seconds; slower probes continue."""
        tasks = {self._start(target) for target in targets}
        if tasks:
            await asyncio.wait(tasks, timeout=within)

    async def record(self, result: ProbeResult) -> None:
        """Store and publish a result, also one that a worker reported."""
        self.results[result.key] = result
        self.metrics.probed(result)
        await self.publications.probe(result)

    def keep(self, keys: set[str]) -> None:
        """Forget the results of all other keys."""
        for key in self.results.keys() - keys:
            del self.results[key]
            self.metrics.forget_probe(key)

    async def close(self) -> None:
        """Cancel the running probes."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, target: Target) -> asyncio.Task[None]:
        task = self._running.get(target.key)
        if task is None:
            task = asyncio.create_task(self._probe(target))
            self._running[target.key] = task
            task.add_done_callback(lambda _: self._running.pop(target.key, None))
        return task

    async def _probe(self, target: Target) -> None:
        started = time.perf_counter()
        error = await self._ask(target)
        duration = (time.perf_counter() - started) * 1000
        await self.record(
            ProbeResult(
                key=target.key,
                name=target.name,
                kind=target.kind,
                error=error,
                duration_ms=round(duration, 1),
                at=utc_now(),
            )
        )

    async def _ask(self, target: Target) -> str | None:
        """Return None when the target answers, else a short reason without address or credential."""
        if isinstance(target, McpTarget):
            return await self.mcp.probe(target.server)
        return await self.model.probe(target.provider, target.model)
