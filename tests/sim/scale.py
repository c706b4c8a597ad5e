"""`python -m tests.sim.scale`: workers are started and stopped as KEDA would, while callers come and go.

Broker, workers and turns are real, and so is the health monitor that the scaler asks, and how workers end. Played are
the scaler, which has the rules of the ScaledObject of `deploy/k8s`, and Kubernetes. The scaler's times are divided, so
that a run takes minutes; the times of turns and of starting workers are not. Nobody has hosted the agent before: that
it is new is what starts the first worker.
"""

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from tests.deployment.kubernetes import of_kind
from tests.embedded import NatsServer
from tests.integration.processes import a_service
from tests.sim.autoscaler import Autoscaler, Rules
from tests.sim.course import Course, Moment, Plan
from tests.sim.lag import Lag, read_lag
from tests.sim.offered import Offered, callers_at, offered
from tests.sim.report import write
from tests.sim.workers import Workers, workers

from health_monitor.settings import MonitorSettings
from pallas_bus.connection import Bus, connect
from pallas_bus.streams import declare
from pallas_cli.k8s.folders import HostedTeam
from pallas_cli.k8s.stamp import stamped
from pallas_contracts.catalog import BUCKETS, GATEWAY, STREAMS
from pallas_turns.feeds import follow_turns

TEAM = Path(__file__).parent / "team"
RESULTS = Path(__file__).parents[2] / "bench" / "results"
MEASURE_INTERVAL: float = MonitorSettings.model_fields["measure_interval"].default
_LOOK_EVERY = 0.25
_PUBLISHED_WITHIN = 60.0


WHOLE = Plan(((0, 0), (40, 200), (70, 200), (110, 0)), slots=25, most=10, turn_seconds=4.0, faster=10.0)


async def simulate(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Course:
    """Run the whole schedule, and on until the last worker is gone."""
    with NatsServer(folder / "nats") as broker:
        async with _parts(plan, broker, folder) as (bus, http, monitor, pods, load):
            run = _Run(plan, _spec(plan), bus, http, monitor, pods, load, tell)
            await run.until_published()
            moments = await run.play()
    return Course(run.began, moments, load.turns, pods.failed)


def _spec(plan: Plan) -> dict[str, Any]:
    """The specification of the ScaledObject, for this plan's workers."""
    [manifest] = stamped([of_kind("production", "ScaledObject")["agent-worker"]], [HostedTeam("simulated", (), {})])
    spec = manifest["spec"] | {"maxReplicaCount": plan.most}
    spec["triggers"][0]["metadata"]["targetValue"] = str(plan.slots)
    return spec


@asynccontextmanager
async def _parts(
    plan: Plan, broker: NatsServer, folder: Path
) -> AsyncGenerator[tuple[Bus, httpx.AsyncClient, str, Workers, Offered]]:
    environ = {
        "PALLAS_NATS_URL": broker.url,
        "PALLAS_TEAMS": str(TEAM),
        "PALLAS_SLOTS": str(plan.slots),
        "PALLAS_DRAIN_SECONDS": "60",
        "SIMULATED_SECONDS": str(plan.turn_seconds),
    }
    monitoring = {"teams": str(TEAM), "measure_interval": str(MEASURE_INTERVAL / plan.faster)}
    async with (
        connect(broker.url, GATEWAY) as bus,
        httpx.AsyncClient(trust_env=False, timeout=5) as http,
    ):
        await declare(bus, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
        async with (
            follow_turns(bus) as feeds,
            a_service("health_monitor", broker.url, folder, "monitor", **monitoring) as monitor,
            workers(environ, folder / "workers.log", http) as pods,
            offered(bus, feeds, "simulated", "thinker") as load,
        ):
            await monitor.ready()
            yield bus, http, monitor.base, pods, load


@dataclass
class _Run:
    plan: Plan
    spec: dict[str, Any]
    bus: Bus
    http: httpx.AsyncClient
    monitor: str
    pods: Workers
    load: Offered
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self.began = datetime.now(UTC)
        self.scaler = Autoscaler(Rules.of(self.spec, faster=self.plan.faster))

    async def until_published(self) -> None:
        """Scale until a worker has published the new agent and has ended again."""
        begin, published = time.monotonic(), False
        while not published or self.pods.replicas or self.pods.ending:
            now = time.monotonic() - begin
            assert now < _PUBLISHED_WITHIN, "nobody has published the new agent"
            await self._scale(now)
            published = published or self.pods.ready > 0
            await asyncio.sleep(_LOOK_EVERY)

    async def play(self) -> list[Moment]:
        """Read the lag repeatedly, and scale as the autoscaler decides."""
        moments: list[Moment] = []
        begin, polled = time.monotonic(), -self.scaler.rules.polling
        self.scaler = Autoscaler(self.scaler.rules)
        while not moments or moments[-1].at < self.plan.schedule[-1][0] or moments[-1].busy:
            now = time.monotonic() - begin
            self.load.allow(callers_at(self.plan.schedule, now))
            if now - polled >= self.scaler.rules.polling:
                polled = now
                lag = await self._scale(now)
            else:
                lag = await self._lag()
            moments.append(self._moment(now, lag))
            if len(moments) % 40 == 0:
                self.tell(f"{now:.0f} s: {self.load.callers} callers, {self.pods.ready} workers, {lag.waiting} waiting")
            await asyncio.sleep(_LOOK_EVERY)
        return moments

    async def _scale(self, now: float) -> Lag:
        lag = await self._lag()
        if lag.wanted is not None:
            await self.pods.scale(self.scaler.look(now, lag.wanted))
        return lag

    async def _lag(self) -> Lag:
        return await read_lag(self.bus, self.http, self.monitor, self.spec["triggers"][0])

    def _moment(self, now: float, lag: Lag) -> Moment:
        pods = self.pods
        return Moment(now, self.load.callers, lag, len(pods.replicas), pods.ready, len(pods.ending))


def main() -> None:
    """Run, and write plot and tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.scale", description=__doc__)
    parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="pallas-sim-") as folder:
        course = asyncio.run(simulate(WHOLE, Path(folder), lambda line: print(line, file=sys.stderr, flush=True)))
    path = write(WHOLE, course, RESULTS)
    print(path.read_text("utf-8"))


if __name__ == "__main__":
    main()
