"""A storm over the fleet: replicas are killed without a break, Coder is cut off for a while, the broker restarts once.

Callers give each agent task after task. One whose start is refused asks again: what was refused has not been typed. So
in the end each prompt was typed once, and each task has one outcome in the log and one place in the history. As a
gateway does, the storm naks calls whose replica is lost.
"""

import asyncio
import random
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.builders import turn_requested
from tests.chaos.collect import left_in_queue, read_log
from tests.chaos.parts import Part
from tests.embedded import NatsServer
from tests.integration.agent_worker.lab import Followed
from tests.integration.real_parts import OWNED, until
from tests.waiting import soon

from pallas_bus.connection import Bus, connect_when_possible
from pallas_bus.errors import retry_while_unavailable
from pallas_bus.streams import declare
from pallas_contracts.catalog import FLEET_AGENT, FLEET_TASKS_AGENT, FLEET_TEAM, GATEWAY
from pallas_contracts.ids import child_id
from pallas_contracts.turns import Claimed, Result, TurnOutcome
from pallas_demo.coder import CoderStandIn, StandInSettings
from pallas_turns.claims import TurnRef
from pallas_turns.feeds import TurnFeeds, follow_turns
from pallas_turns.liveness import WorkerLiveness, watch_workers
from pallas_turns.queue import submit

SPEC = "say ready"
_PATIENCE = 180.0
_PAUSE = 0.3
_REPLICAS = 2
_VARIES = re.compile(r"'agent\d+'|agent \w+|since .*")


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """A replica is killed `every` so many seconds, Coder is away for `away`; `tasks` are those of all agents."""

    seed: int
    agents: int = 20
    tasks: int = 200
    every: float = 0.3
    away: float = 5.0


@dataclass(frozen=True, slots=True)
class Try:
    """A call of `start_agent_task`: the turn of its task, and the error that it was answered, if it was one."""

    text: str
    turn_id: str
    error: str | None


@dataclass(frozen=True)
class FleetResult:
    """The results of a storm."""

    seconds: float
    kills: int
    tries: tuple[Try, ...]
    attempts: Counter[int]
    violations: tuple[str, ...]

    def __str__(self) -> str:
        errors = Counter(_VARIES.sub("…", it.error or "started") for it in self.tries)
        lines = [
            f"{self.seconds:.0f} s, {self.kills} kills, answers of start_agent_task: {dict(errors)}, "
            f"tasks by attempts: {dict(sorted(self.attempts.items()))}",
            f"violations: {len(self.violations)}",
            *self.violations,
        ]
        return "\n".join(lines)


@dataclass
class _Storm:
    options: FleetOptions
    nats: NatsServer
    coder: CoderStandIn
    replicas: list[Part]
    bus: Bus
    feeds: TurnFeeds
    liveness: WorkerLiveness
    report: Callable[[str], None]
    kills: int = 0
    tries: list[Try] = field(default_factory=list[Try])
    done: int = 0

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The answer of a call that is made until it succeeds; for what may be repeated."""
        while True:
            error, answer = await self._outcome(Followed(*self._opened(tool, arguments)))
            if error is None:
                return answer
            await asyncio.sleep(_PAUSE)

    def _opened(self, tool: str, arguments: dict[str, Any]) -> Any:
        request = turn_requested(FLEET_TEAM, FLEET_AGENT, tool=tool, arguments=arguments)
        return request, self.feeds.open(TurnRef.of(request))

    async def _outcome(self, followed: Followed) -> tuple[str | None, Any]:
        await retry_while_unavailable(lambda: submit(self.bus, followed.request), "call", deadline=None)
        with self.liveness.holding(followed.ref.turn_id) as taken:
            outcome = await soon(_ended(followed, taken), _PATIENCE)
        if outcome.status != "completed":
            return f"{outcome.status}: {outcome.code}", None
        result = next(message for message in reversed(followed.messages) if isinstance(message, Result))
        if result.is_error:
            told = (result.meta or {})["pallas/error"]
            return f"{told['error']}: {told['message']}", None
        return None, result.structured

    async def have_done(self, name: str, texts: list[str]) -> None:
        """Give an agent its tasks, each after the end of the one before."""
        for text in texts:
            while True:
                followed = Followed(*self._opened("start_agent_task", {"agent_name": name, "task_description": text}))
                task = child_id(followed.request.turn_id, "task")
                feed = self.feeds.open(TurnRef(FLEET_TEAM, FLEET_TASKS_AGENT, task))
                error, _ = await self._outcome(followed)
                self.tries.append(Try(text, task, error))
                if error is None:
                    await Followed(followed.request, feed).outcome(_PATIENCE)
                    break
                self.feeds.close(feed)
                await asyncio.sleep(_PAUSE)
            self.done += 1

    async def are_idle(self) -> bool:
        """Whether all agents have done what they were made for."""
        return {each["status"] for each in (await self.call("list_agents"))["agents"]} == {"idle"}

    async def kill(self) -> None:
        """Kill a replica that works, again and again, unless it is the last one that does."""
        chance = random.Random(f"{self.options.seed} kills")
        while True:
            await asyncio.sleep(self.options.every)
            working = [each for each in self.replicas if each.works]
            if len(working) > 1:
                victim = chance.choice(working)
                victim.close()  # without waiting: nobody may end the storm between a kill and the next start
                self.kills += 1
                victim.start()
                self.bus.spawn(victim.ready())

    async def cut_off(self) -> None:
        """Coder is away after a third of the tasks, the broker restarts after two thirds."""
        await until(self._have(1 / 3), _PATIENCE * 10)
        self.report(f"Coder is away for {self.options.away:g} s")
        await self.coder.stop_listening()
        await asyncio.sleep(self.options.away)
        await self.coder.listen()
        await until(self._have(2 / 3), _PATIENCE * 10)
        self.report("the broker restarts")
        await asyncio.to_thread(self.nats.restart, kill=True)

    def _have(self, share: float) -> Any:
        async def look() -> bool:
            return self.done >= share * self.options.tasks

        return look

    async def settle(self) -> list[str]:
        """Let all replicas work, and wait until nothing is queued. Returns what is left then."""
        left = ["?"]

        async def look() -> bool:
            nonlocal left
            left = await left_in_queue(self.bus)
            return not left

        await asyncio.gather(*(each.ready() for each in self.replicas))
        with suppress(TimeoutError):
            await until(look, 60)
        return left


async def _ended(followed: Followed, taken: Callable[[Claimed], None]) -> TurnOutcome:
    """Follow a call until it ends."""
    async for message in followed.feed:
        followed.messages.append(message)
        if isinstance(message, Claimed):
            taken(message)
        if isinstance(message, TurnOutcome):
            return message
    raise AssertionError(f"it ended without an outcome: {followed.messages!r}")


async def run_fleet(options: FleetOptions, folder: Path, report: Callable[[str], None]) -> FleetResult:
    """Run a storm and check what it left."""
    async with _storm(options, folder, report) as storm:
        names = [f"agent{number}" for number in range(options.agents)]
        chance = random.Random(f"{options.seed} tasks")
        kinds = ("say {}", "{}", "work 1 s; say {}", "ignore ESC once; say {}")
        texts = {name: list[str]() for name in names}
        for number in range(options.tasks):
            name = names[number % len(names)]
            texts[name].append(chance.choice(kinds).format(f"task {number} of {name}"))
        began = time.monotonic()
        await asyncio.gather(*(storm.call("create_agent", name=it, project="Setup", spec=SPEC) for it in names))
        await until(storm.are_idle, _PATIENCE)
        report(f"{len(names)} agents after {time.monotonic() - began:.0f} s")
        raging = [asyncio.create_task(storm.kill()), asyncio.create_task(storm.cut_off())]
        try:
            await asyncio.gather(*(storm.have_done(name, texts[name]) for name in names))
            await raging[1]
        finally:
            for each in raging:
                each.cancel()
        seconds = time.monotonic() - began
        report(f"all tasks are over after {seconds:.0f} s and {storm.kills} kills")
        return await _checked(storm, texts, seconds)


async def _checked(storm: _Storm, texts: dict[str, list[str]], seconds: float) -> FleetResult:
    wrong = [f"left in the queue: {it}" for it in await storm.settle()]
    turns, _ = await read_log(storm.bus)
    listed = await storm.call("list_agents")
    wrong += [f"status: {it}" for it in listed["agents"] if (it["status"], it["current_task"]) != ("idle", None)]
    if len(listed["agents"]) != len(texts):
        wrong.append(f"{len(listed['agents'])} agents are listed")
    for turn in turns.values():
        if [it.body for it in turn.outcomes][1:] or not turn.outcomes:
            wrong.append(f"turn {turn.turn} of {turn.agent} has {len(turn.outcomes)} outcomes")
    for name, wanted in texts.items():
        prompts = storm.coder.agent(name).prompts
        if prompts != [SPEC, *wanted]:
            wrong.append(f"{name} got {prompts} instead of {[SPEC, *wanted]}")
        history = await storm.call("show_agent_task_history", agent_name=name, page_size=100)
        rows = {row["id"].replace("-", ""): row for row in history["tasks"]}
        mine = [it for it in storm.tries if it.text in wanted]
        for each in mine:
            row = rows.pop(each.turn_id, None)
            if each.error is None and (row is None or row["status"] != "completed"):
                wrong.append(f"{name}: {each} is in the history as {row}")
            elif each.error is not None and row is not None and row["started_at"] is not None:
                wrong.append(f"{name}: {each} was refused, and is in the history as {row}")
            logged = turns.get(each.turn_id)
            if each.error is None and (logged is None or logged.outcomes[0].body.status != "completed"):
                wrong.append(f"{name}: {each} is in the log as {logged and logged.outcomes}")
        if [(row["summary"], row["status"]) for row in rows.values()] != [(SPEC, "completed")]:
            wrong.append(f"{name}: also in the history: {list(rows.values())}")
        for text in wanted:
            if sum(it.error is None for it in mine if it.text == text) != 1:
                wrong.append(f"{name}: {text!r} was not started once")
    attempts = Counter(len(turn.attempts) for turn in turns.values() if turn.agent == FLEET_TASKS_AGENT)
    return FleetResult(seconds, storm.kills, tuple(storm.tries), attempts, tuple(wrong))


@asynccontextmanager
async def _storm(options: FleetOptions, folder: Path, report: Callable[[str], None]) -> AsyncGenerator[_Storm]:
    nats = NatsServer(folder / "nats")
    settings = StandInSettings(build_seconds=0.05, sandbox=False)
    try:
        await asyncio.to_thread(nats.start)
        async with (
            CoderStandIn(settings) as coder,
            connect_when_possible(nats.url, GATEWAY, instance="storm") as bus,
            follow_turns(bus) as feeds,
            watch_workers(bus) as liveness,
        ):
            await declare(bus, *OWNED)
            env = {
                "PALLAS_NATS_URL": nats.url,
                "PALLAS_DRAIN_SECONDS": "3",
                "PALLAS_CODER_URL": coder.url,
                "PALLAS_CODER_TOKEN": coder.token,
            }
            command = [sys.executable, "-m", "fleet"]
            replicas = [Part(f"fleet-{it + 1}", command, folder, env, "readyz") for it in range(_REPLICAS)]
            try:
                for each in replicas:
                    each.start()
                await asyncio.gather(*(each.ready() for each in replicas))
                yield _Storm(options, nats, coder, replicas, bus, feeds, liveness, report)
            finally:
                for each in replicas:
                    each.close()
    finally:
        await asyncio.to_thread(nats.close)
