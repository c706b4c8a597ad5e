"""`python -m tests.sim.scale`: workers are started and stopped as KEDA would, while callers come and go.

Broker, workers and turns are real, and so is what the scaler reads (`/jsz`) and how workers end. Played are the scaler,
which has the rules of the ScaledObject that `pallas k8s scaledobject` prints, and Kubernetes. The scaler's times are
divided, so that a run takes minutes; the times of turns and of starting workers are not.
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
import yaml
from pallas_cli.agents.scaled_object import Scaling, scaled_object
from tests.embedded import NatsServer, free_port
from tests.sim.autoscaler import Autoscaler, Rules
from tests.sim.course import Course, Moment, Plan
from tests.sim.lag import Lag, read_lag
from tests.sim.offered import Offered, callers_at, offered
from tests.sim.report import write
from tests.sim.workers import Workers, workers
from tests.waiting import eventually

from pallas_bus.transport.connection import connect
from pallas_bus.transport.streams import declare
from pallas_bus.turnlog.feeds import follow_turns
from pallas_contracts.catalog import BUCKETS, GATEWAY, STREAMS

TEAM = Path(__file__).parent / "team"
RESULTS = Path(__file__).parents[2] / "bench" / "results"
_LOOK_EVERY = 0.25
_STARTS_WITHIN = 60.0


WHOLE = Plan(((0, 0), (40, 200), (70, 200), (110, 0)), slots=25, most=10, turn_seconds=4.0, faster=10.0)


async def simulate(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Course:
    """Run the whole schedule, and on until the last worker is gone."""
    spec = yaml.safe_load(scaled_object([TEAM], Scaling("agent-worker", "pallas", plan.slots, 0, plan.most)))["spec"]
    monitor = free_port()
    with NatsServer(folder / "nats", monitor_port=monitor) as broker:
        async with _parts(plan, broker, folder) as (http, pods, load):
            await _publish_definitions(pods)
            run = _Run(plan, spec, http, f"http://127.0.0.1:{monitor}", pods, load, tell)
            moments = await run.play()
    return Course(run.began, moments, load.turns, pods.failed)


@asynccontextmanager
async def _parts(
    plan: Plan, broker: NatsServer, folder: Path
) -> AsyncGenerator[tuple[httpx.AsyncClient, Workers, Offered]]:
    environ = {
        "PALLAS_NATS_URL": broker.url,
        "PALLAS_TEAMS": str(TEAM),
        "PALLAS_SLOTS": str(plan.slots),
        "PALLAS_DRAIN_SECONDS": "60",
        "SIMULATED_SECONDS": str(plan.turn_seconds),
    }
    async with (
        connect(broker.url, GATEWAY) as bus,
        httpx.AsyncClient(trust_env=False, timeout=5) as http,
    ):
        await declare(bus, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
        async with (
            follow_turns(bus) as feeds,
            workers(environ, folder / "workers.log", http) as pods,
            offered(bus, feeds, "simulated", "thinker") as load,
        ):
            yield http, pods, load


async def _publish_definitions(pods: Workers) -> None:
    """Let one worker make the consumers and definitions, as the first one of a Deployment does, and end again."""
    await pods.scale(1)
    await eventually(lambda: pods.ready == 1, _STARTS_WITHIN)
    await pods.scale(0)
    await eventually(lambda: not pods.ending, _STARTS_WITHIN)


@dataclass
class _Run:
    plan: Plan
    spec: dict[str, Any]
    http: httpx.AsyncClient
    monitor: str
    pods: Workers
    load: Offered
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self.began = datetime.now(UTC)
        self.scaler = Autoscaler(Rules.of(self.spec, faster=self.plan.faster))

    async def play(self) -> list[Moment]:
        """Read the lag repeatedly, and scale as the autoscaler decides."""
        moments: list[Moment] = []
        begin, polled = time.monotonic(), -self.scaler.rules.polling
        while not moments or moments[-1].at < self.plan.schedule[-1][0] or moments[-1].busy:
            now = time.monotonic() - begin
            self.load.allow(callers_at(self.plan.schedule, now))
            lag = await read_lag(self.http, self.monitor, self.spec["triggers"])
            if now - polled >= self.scaler.rules.polling:
                polled = now
                await self.pods.scale(self.scaler.look(now, lag.total))
            moments.append(self._moment(now, lag))
            if len(moments) % 40 == 0:
                self.tell(f"{now:.0f} s: {self.load.callers} callers, {self.pods.ready} workers, {lag.waiting} waiting")
            await asyncio.sleep(_LOOK_EVERY)
        return moments

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
