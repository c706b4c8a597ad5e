"""Executes the turns of hosted agents in a bounded number of slots.

A service hosts agents with `host`. The executor pulls and executes their turns, answers reads of prompts and resources,
and publishes its presence with what it hosts.

After a restore no turns are taken until an operator has decided about each turn of the backup. That hold is an entry of
the bucket `holds`, so it lasts over restarts. A process can also be held by its own setting. Turns are taken only once
the bucket was read: until then it may hold.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from pallas_bus import ask, kv
from pallas_bus.access import Access
from pallas_bus.connection import Bus
from pallas_bus.errors import polling
from pallas_bus.kv import Table, watch
from pallas_contracts.agents import AgentRead, AgentReadAnswer, Trouble, WorkerPresence
from pallas_contracts.backups import Hold
from pallas_contracts.bounds import MANY, line
from pallas_contracts.catalog import HOLDS, PRESENCE_TTL, READ_AGENT, TURN_QUEUE, WORKERS
from pallas_contracts.errors import NotFound, PallasError
from pallas_contracts.message import utc_now
from pallas_runtime.process import Process
from pallas_runtime.settings import ExecutorSettings
from pallas_turns.claims import watch_claims
from pallas_turns.conclude import valid_value
from pallas_turns.dead_letters import DeadLetters
from pallas_turns.decode import DecodeTurn
from pallas_turns.execute import CLEAN_UP, TakeTurn
from pallas_turns.liveness import send_heartbeats
from pallas_turns.metrics import Metrics
from pallas_turns.pull import PULL_EXPIRES, Slots, TurnPuller
from pallas_turns.queue import Delivery, ensure_consumer
from pallas_turns.runtime import HostedAgent
from pallas_turns.settle import Running

log = logging.getLogger(__name__)

_CLAIMS_POLL_SECONDS = 15.0
"""A poll reads the claims of all running turns. It only saves work: the broker refuses a superseded attempt anyway."""

_PRESENCE_PAUSE = 0.05
"""Seconds between two presences at least, so that many changes are published together."""

_NAK_SECONDS = 2.0
"""Seconds in which a turn is nak'ed when this executor ends."""

_NOT_READ = "it is not known yet whether a restore holds turns"
BY_SETTING = "held by PALLAS_HOLD"


@dataclass
class Holding:
    """The holds as of now. Made by `watch_holds`. `on_change` is called when there may be another answer.

    Nobody removes a hold, it is released. One that is missing was lost, and holds on.
    """

    table: Table[Hold]
    by_setting: bool = False
    on_change: Callable[[], None] = field(default=lambda: None)
    why: str | None = _NOT_READ
    """Why no turn is taken, None if turns are."""
    _known: dict[str, Hold] = field(default_factory=dict[str, Hold])

    def changed(self, *_: object) -> None:
        """Take what the bucket says now."""
        self._known |= dict(self.table.items())
        if self.by_setting:
            self.why = BY_SETTING
        elif self.table.synced.is_set():
            self.why = next((reason_of(hold) for hold in self._known.values() if hold.active), None)
        self.on_change()


def reason_of(hold: Hold) -> str:
    """A hold as a sentence for operators."""
    if not hold.complete:
        return f"held: the restore of the backup {hold.backup} has not finished"
    return f"held after the restore of the backup {hold.backup}, until `pallas turns reconcile --release`"


@asynccontextmanager
async def watch_holds(bus: Bus, *, by_setting: bool) -> AsyncGenerator[Holding]:
    """Follow the holds inside the block, which begins once they are known."""
    async with watch(bus, HOLDS) as table:
        holding = Holding(table, by_setting)
        table.on_change(holding.changed)
        await table.synced.wait()
        holding.changed()
        yield holding


@dataclass(frozen=True)
class Troubles:
    """Problems of an executor: `failed` agents with the reason; what is wrong with `agents` that have started.

    `stdio` are dependencies by key, None when healthy.
    """

    failed: Callable[[], dict[str, str]] = dict
    agents: Callable[[], dict[str, Trouble]] = dict
    stdio: Callable[[], dict[str, str | None]] = dict


@dataclass
class Executor:
    """Made by `execute_turns`. Each turn runs in its own task; `idle` is set while there is none."""

    bus: Bus
    slots: Slots
    running: Running
    agents: dict[str, HostedAgent]
    metrics: Metrics
    decoding: DecodeTurn
    pull_seconds: float
    holding: Holding
    puller: TurnPuller = field(init=False)
    http: None = None
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    presence_changed: asyncio.Event = field(default_factory=asyncio.Event)
    _service: ask.Answering | None = None
    _watching: AsyncExitStack = field(default_factory=AsyncExitStack)
    _watched: set[str] = field(default_factory=set[str])
    _answered: set[str] = field(default_factory=set[str])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])
    _pulling: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.puller = TurnPuller(self.bus, self._room, self.take, self.pull_seconds, self._declare)
        self.holding.on_change = self._hold_changed

    def _room(self, key: str) -> int:
        return self.slots.room(key) if self.holding.why is None else 0

    def _hold_changed(self) -> None:
        why = self.holding.why
        log.warning("no turns are taken", extra={"reason": why}) if why is not None else log.info("turns are taken")
        self.presence_changed.set()
        self.bus.spawn(self.puller.refill())

    def replace(self, agents: Iterable[HostedAgent]) -> None:
        """Replace hosted agents by these; turns that run keep the agents they started with."""
        self.agents |= {hosted.key: hosted for hosted in agents if hosted.key in self.agents}

    async def watch(self, team: str) -> None:
        """Subscribe to claims and cancels of a team's turns."""
        if team not in self._watched:
            claims = watch_claims(self.bus, self.running.on_claim, team=team)
            await self._watching.enter_async_context(claims)
            self._watched.add(team)

    async def host(self, team: str, agents: Sequence[HostedAgent]) -> None:
        """Execute the turns of these agents, and of no others of the team.

        Raises:
            Unavailable: the broker does not answer; the call may be repeated.
        """
        await self.watch(team)
        wanted = {hosted.key: hosted for hosted in agents}
        for key in [key for key in self.agents if key.startswith(f"{team}.") and key not in wanted]:
            await self.remove(key)
        self.agents |= wanted
        for hosted in agents:
            await self.add(hosted)
        if team not in self._answered and self._service is not None:
            self._answered.add(team)
            await ask.answer(self.bus, self._service, READ_AGENT, self._read, team=team)

    async def add(self, hosted: HostedAgent) -> None:
        """Execute the turns of an agent, or go on with a changed one. Its team is watched.

        Raises:
            Unavailable: the broker does not answer; the call may be repeated.
        """
        key = hosted.key
        self.agents[key] = hosted
        self.metrics.agents.changed(key, hosted)
        async with self._pulling:
            if key in self.agents:  # else it was removed meanwhile
                await self._declare(key)
                if key not in self.puller:
                    await self.puller.add(key, *hosted.names)
        self.presence_changed.set()

    async def _declare(self, key: str) -> None:
        if (hosted := self.agents.get(key)) is not None:
            limit = hosted.definition.limits.max_concurrency
            await ensure_consumer(self.bus, *hosted.names, max_concurrency=limit)

    async def remove(self, key: str) -> None:
        """Execute no more turns of an agent; turns that run go on."""
        async with self._pulling:
            await self.puller.remove(key)
            hosted = self.agents.pop(key, None)
        if hosted is not None:
            self.metrics.agents.changed(key, None)
            self.presence_changed.set()

    async def _read(self, question: AgentRead) -> AgentReadAnswer:
        agent = self.agents.get(f"{question.team}.{question.agent}")
        if agent is None:
            raise NotFound(f"agent {question.agent!r} is not hosted here")
        return AgentReadAnswer(result=valid_value(await agent.runtime.read(question)))

    def take(self, key: str, delivery: Delivery) -> bool:
        """Start a delivered turn; False when there is no slot for it, or no turn is taken."""
        if self.holding.why is not None or not self.slots.take(key):
            return False
        self.idle.clear()
        name = f"{key} at {delivery.position}"
        # It begins before this returns, so the claim leaves in one write with the next pull.
        task = asyncio.Task(self._turn(key, delivery), loop=asyncio.get_running_loop(), name=name, eager_start=True)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _turn(self, key: str, delivery: Delivery) -> None:
        try:
            await self.decoding.take(key, delivery)
        finally:
            self.slots.give(key)
            if not self.slots.busy:
                self.idle.set()
            await self.puller.refill()

    async def start(self) -> None:
        """Begin to answer reads and to pull turns of hosted agents."""
        self._service = await ask.answering(self.bus, description="executes turns of agents")
        await self.puller.start()

    async def drain(self) -> None:
        """Pull nothing more, and wait until each turn that runs has ended or is given back at its next boundary."""
        await self.puller.stop()
        self.running.drain()
        if self.slots.busy and not self.bus.closed.is_set():
            await self.idle.wait()

    async def close(self) -> None:
        """Nak what still runs, so that another executor takes it at once; this one must not pull it again."""
        await self.puller.stop()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=CLEAN_UP + _NAK_SECONDS)
            for task in left:
                log.warning("a turn did not end in time and is abandoned", extra={"turn": task.get_name()})
        await self._watching.aclose()

    async def send_presence(self, troubles: Troubles) -> None:
        """Publish what is hosted here on each change, and three times per time to live, for ever.

        Of the troubles, what exceeds the bounds of a presence is left out: no gateway could read it.
        """
        while True:
            self.presence_changed.clear()
            failed = islice(troubles.failed().items(), MANY)
            stdio = islice(troubles.stdio().items(), MANY)
            held = self.holding.why
            presence = WorkerPresence(
                worker=self.bus.instance,
                slots=self.slots.total,
                busy=self.slots.busy,
                agents=tuple(sorted(key for key, hosted in self.agents.items() if hosted.reachable)),
                failed={agent: line(why) for agent, why in failed},
                troubles=dict(islice(troubles.agents().items(), MANY)),
                stdio={key: why and line(why) for key, why in stdio},
                held=held and line(held),
                at=utc_now(),
            )
            await kv.put_nowait(self.bus, WORKERS, presence, worker=self.bus.instance)
            await asyncio.sleep(_PRESENCE_PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(PRESENCE_TTL / 3 - _PRESENCE_PAUSE):
                    await self.presence_changed.wait()


@asynccontextmanager
async def execute_turns(
    bus: Bus,
    settings: ExecutorSettings,
    process: Process,
    metrics: Metrics,
    *,
    slots: int,
    pull_seconds: float = PULL_EXPIRES,
) -> AsyncGenerator[Executor]:
    """Be ready to execute turns inside the block: `slots` at a time. Leaving it naks what still runs.

    Content is kept for `settings.content_seconds` after a turn's end, unless its agent says otherwise. A pull request,
    of which each agent has one, waits for `pull_seconds` at the broker. No turn is taken while a restore holds them.
    """
    agents, running = dict[str, HostedAgent](), Running()
    letters = DeadLetters(bus, metrics)
    turns = TakeTurn(bus, process.instance, settings.content_seconds, agents.get, running, letters, metrics)
    decoding = DecodeTurn(turns)
    free, reread = Slots(slots, lambda: len(agents)), partial(running.reread, bus)
    async with (
        watch_holds(bus, by_setting=settings.hold) as holding,
        # Gateways nak the turns of an executor that sends no heartbeats.
        send_heartbeats(Access.of(settings), process.instance, service=bus.service) as heartbeats_lost,
        process.ends_when(heartbeats_lost, "heartbeats"),
        polling(bus, reread, _CLAIMS_POLL_SECONDS),
    ):
        executor = Executor(bus, free, running, agents, metrics, decoding, pull_seconds, holding)
        metrics.watch(free, lambda: holding.why is not None)
        process.probes.notes["turns"] = lambda: holding.why
        bus.on_reconnect(reread)
        bus.on_made_again(TURN_QUEUE.name, partial(running.queue_lost, bus))
        await executor.start()
        keeping = process.vital(bus.spawn(running.send_in_progress()))
        try:
            yield executor
        finally:
            keeping.cancel()
            await executor.close()
            with suppress(PallasError):  # else it expires
                await kv.delete(bus, WORKERS, worker=bus.instance)
