"""Lets the blows of a script fall on a stage, and heals each after its time."""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime

from tests.chaos.parts import Part, Stage
from tests.chaos.script import Blow

from pallas_contracts.message import utc_now

_SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}


@dataclass(slots=True)
class Fallen:
    """A blow that has fallen: when, on which instance, and when that was there again, though perhaps not yet ready."""

    blow: Blow
    instance: str
    time: datetime = field(default_factory=utc_now)
    healed: datetime | None = None


@dataclass
class Storm:
    """`fallen` are the blows that hit something. One that finds its target down or paused hits nothing, and the last
    worker that works is spared; in a hail the last one of each kind, and what does not work yet.
    """

    stage: Stage
    report: Callable[[str], None]
    hail: bool = False
    fallen: list[Fallen] = field(default_factory=list[Fallen])
    _healing: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])
    _nats_down: bool = False

    async def rage(self, blows: list[Blow]) -> None:
        """Let them fall, each at its time; cancelling this stops the storm."""
        began = time.monotonic()
        for blow in blows:
            await asyncio.sleep(max(0.0, began + blow.at - time.monotonic()))
            self._strike(blow)

    async def settle(self) -> None:
        """Wait until everything that was hit has been healed."""
        await asyncio.gather(*self._healing, return_exceptions=True)

    @property
    def broker_gone(self) -> list[tuple[datetime, datetime]]:
        """From when until when the broker was away."""
        gone = [each for each in self.fallen if each.blow.target == "nats"]
        return [(each.time, each.healed) for each in gone if each.healed is not None]

    def _strike(self, blow: Blow) -> None:
        if blow.target == "nats":
            if not self._nats_down:
                self._nats_down = True
                self._heal(self._restart_nats(blow), self._fell(blow, "nats"))
            return
        part = self._target(blow)
        if part is None or not part.up or part.paused or self._last_one(part) or (self.hail and not part.works):
            return
        fallen = self._fell(blow, part.instance)
        part.send(_SIGNALS[blow.manner])
        self._heal(self._restart(part, blow), fallen)

    def _last_one(self, part: Part) -> bool:
        """Whether no other worker works: how long a turn stands still says something only while there is one."""
        stage = self.stage
        workers = (stage.workers, stage.fast_agents)
        kinds = (*workers, stage.gateways, stage.pools, stage.pipelines) if self.hail else workers
        return any(part in kind and not any(it.works for it in kind if it is not part) for kind in kinds)

    def _target(self, blow: Blow) -> Part | None:
        match blow.target:
            case "worker":
                return self.stage.workers[blow.number % len(self.stage.workers)]
            case "fast-agent worker":
                workers = self.stage.fast_agents
                return workers[blow.number % len(workers)] if workers else None
            case "gateway":
                return self.stage.gateways[blow.number % len(self.stage.gateways)]
            case "pool":
                return self.stage.pools[blow.number % len(self.stage.pools)]
            case "pipelines":
                return self.stage.pipelines[blow.number % len(self.stage.pipelines)]
            case "data agent":
                return self.stage.data_agents[blow.number % len(self.stage.data_agents)]
            case _:
                return self.stage.redis

    def _fell(self, blow: Blow, instance: str) -> Fallen:
        self.fallen.append(Fallen(blow, instance))
        self.report(f"{blow.at:6.1f} s  {blow.manner} {instance}, back after {blow.down:.1f} s")
        return self.fallen[-1]

    def _heal(self, work: Coroutine[None, None, None], fallen: Fallen) -> None:
        async def heal() -> None:
            await work
            fallen.healed = utc_now()

        task = asyncio.create_task(heal())
        self._healing.add(task)
        task.add_done_callback(self._healing.discard)

    async def _restart(self, part: Part, blow: Blow) -> None:
        if blow.manner == "stop":
            await asyncio.sleep(blow.down)
            part.send(signal.SIGCONT)
            return
        await part.ended()
        await asyncio.sleep(blow.down)
        part.start()
        if part is not self.stage.redis:
            self._ready(part)

    def _ready(self, part: Part) -> None:
        """Note when it works; a process that is hit before that never does."""
        task = asyncio.create_task(part.ready())
        self._healing.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._healing.discard(task)
        if not task.cancelled():
            task.exception()

    async def _restart_nats(self, blow: Blow) -> None:
        nats = self.stage.nats
        await asyncio.to_thread(nats.kill9 if blow.manner == "kill" else nats.stop)
        await asyncio.sleep(blow.down)
        await asyncio.to_thread(nats.start)
        self._nats_down = False
