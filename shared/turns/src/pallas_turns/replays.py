"""Executes many turns again, as new turns: at a pace, and without taking their agents from callers.

The id of each new turn follows from that of the old one. It is looked up before it is queued, and for two minutes the
broker takes no second message of it. So this can be interrupted and started again, also twice at a time: each new turn
is executed once. Nothing is cancelled on the way.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pallas_bus.connection import Bus
from pallas_bus.errors import retry_while_unavailable
from pallas_bus.reads import read_last
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import KEPT_REQUEST, TURN_LOG
from pallas_contracts.errors import Conflict, Denied, NotFound, Rejected, Unavailable
from pallas_contracts.ids import replay_id
from pallas_contracts.turns import Principal, TurnRequested
from pallas_turns.claims import TurnRef
from pallas_turns.content import offload_request, whole_request
from pallas_turns.history.replays import find_replays
from pallas_turns.history.turns import TurnHistory, fold
from pallas_turns.queue import queue_state, submit, turns_by_caller
from pallas_turns.replay import Choice, caller_of, key_of, request_again


@dataclass(frozen=True, slots=True)
class ReplayRequests:
    """Makes them in the name of the old callers, for `operator`, with `model` if given."""

    bus: Bus
    operator: Principal
    model: str | None = None

    async def kept(self, turns: Sequence[TurnHistory]) -> dict[str, TurnRequested]:
        """The kept requests of these turns, by the id of the turn.

        Raises:
            Unavailable: the broker does not answer.
        """
        subjects = (turn.ref.on(KEPT_REQUEST.template) for turn in turns)
        found = fold(await read_last(self.bus, TURN_LOG.name, *subjects))
        return {name: turn.kept for name, turn in found.items() if turn.kept is not None}

    async def of(self, turn: TurnHistory, kept: TurnRequested | None, definition: AgentDefinition) -> TurnRequested:
        """The request of the new turn. `kept` is that of the old one, if it is stored.

        Raises:
            NotFound: the request is not kept any more (`content_expired`).
            Conflict, Denied, Rejected: it cannot be executed again.
            Unavailable: the broker does not answer.
        """
        if kept is None:
            raise NotFound(f"the request of turn {turn.turn_id} is no longer stored", code="content_expired")
        asked = await whole_request(self.bus, kept)
        if asked.parent is not None:
            raise Conflict(f"turn {asked.parent} has made it, and makes it again", code="child")
        caller = caller_of(turn.team, asked.principal, self.operator)
        if caller != self.operator and not definition.allows(caller):
            raise Denied(f"{key_of(turn)} no longer allows its caller", code="not_allowed")
        new, model = replay_id(turn.turn_id), self.model
        return await request_again(asked, definition, turn_id=new, model=model, caller=caller, operator=self.operator)


_SHARE = 4
"""Replays fill this part of `max_queued`."""

_NO_CONSUMER = 10014
"""The broker's code: no worker has hosted the agent yet."""


async def free_places(bus: Bus, definition: AgentDefinition) -> int:
    """How many replays the agent's queue takes now; 0 or less: none.

    Raises:
        Unavailable: the broker does not answer.
    """
    return max(1, definition.limits.max_queued // _SHARE) - await _waiting(bus, definition.team, definition.agent)


async def _waiting(bus: Bus, team: str, agent: str) -> int:
    try:
        return (await queue_state(bus, team, agent)).waiting
    except Unavailable as error:
        if error.facts.get("err_code") != _NO_CONSUMER:
            raise
        return sum((await turns_by_caller(bus, team, agent)).values())


@dataclass
class Pace:
    """Lets `rate` steps a second pass, evenly. What was not used is not saved up."""

    rate: float
    _next: float = 0.0

    async def step(self) -> None:
        """Wait for the next step."""
        now = asyncio.get_running_loop().time()
        at = max(now, self._next)
        self._next = at + 1 / self.rate
        await asyncio.sleep(at - now)


_MOST = 50
"""Turns of an agent that are read at a time."""

_WINDOW = 20.0
"""Seconds for which a look-up of replays holds at most. The broker knows a submitted turn for longer."""

_AGENTS = 8
"""Agents whose turns are looked up and queued at a time. All share the pace."""

_PATIENCE = 60.0
"""Seconds for which a broker that does not answer is asked again."""

_BUSY = 0.5
_BUSIEST = 5.0
"""Seconds until a full queue is looked at again, at first and at most."""


@dataclass
class ManyReplays:
    """Queues the replays of chosen turns, as `requests` makes them.

    `queued` has each new turn by the id of the old one, `skipped` the old turns that were replayed meanwhile, and
    `refused` the reasons why others could not be. `waits` is called with the `team.agent` whose queue is full.
    """

    bus: Bus
    choice: Choice
    pace: Pace
    requests: ReplayRequests
    waits: Callable[[str], None] = lambda _: None
    queued: dict[str, TurnRef] = field(default_factory=dict[str, TurnRef])
    skipped: list[str] = field(default_factory=list[str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    _agents: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AGENTS))

    async def queue_all(self) -> None:
        """Queue all of them: the turns of each agent in their order, of all agents at a time.

        Raises:
            Unavailable: the broker does not answer. What is queued stays queued.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for key, turns in self.choice.by_agent().items():
                    group.create_task(self._queue_agent(self.choice.definitions[key], turns))
        except* Unavailable as errors:
            raise errors.exceptions[0] from None

    async def _queue_agent(self, definition: AgentDefinition, turns: Sequence[TurnHistory]) -> None:
        left = deque(turns)
        while left:
            room = await self._room(definition)
            async with self._agents:
                await self.pace.step()  # before the look-up, which must not be old when a turn is queued
                queued = await self._queue_some(left, room, definition)
            if not queued:
                self.waits(key_of(left[0]))
                await asyncio.sleep(_BUSIEST)

    async def _queue_some(self, left: deque[TurnHistory], most: int, definition: AgentDefinition) -> bool:
        """Queue the replays of the first turns in `left`, and take these out. False: the queue is full."""
        some = list(islice(left, most))
        replays, kept = await find_replays(self.bus, some), await self.requests.kept(some)
        for turn in some:
            if turn.turn_id in replays:
                self.skipped.append(turn.turn_id)
            else:
                if turn is not some[0]:
                    await self.pace.step()
                if not await self._queue(turn, kept.get(turn.turn_id), definition):
                    return False
            left.popleft()
        return True

    async def _queue(self, turn: TurnHistory, kept: TurnRequested | None, definition: AgentDefinition) -> bool:
        """Queue the replay of a turn, or note why that is not possible. False: the queue is full."""
        try:
            request = await self.requests.of(turn, kept, definition)
            ref = await self._submit(request)
        except (Conflict, Denied, NotFound, Rejected) as error:
            self.refused[turn.turn_id] = f"{error.code}: {error.message}"
        except Unavailable as error:
            if error.code != "queue_full":
                raise
            return False
        else:
            self.queued[turn.turn_id] = ref
        return True

    async def _room(self, definition: AgentDefinition) -> int:
        """How many turns to queue next; waits while the agent's queue is full."""
        at_once, pause = max(1, min(_MOST, math.floor(self.pace.rate * _WINDOW / _AGENTS))), _BUSY
        while (free := await free_places(self.bus, definition)) <= 0:
            self.waits(f"{definition.team}.{definition.agent}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _BUSIEST)
        return min(at_once, free)

    async def _submit(self, request: TurnRequested) -> TurnRef:
        """Queue the turn.

        Raises:
            Rejected: it is too large (`too_large`).
            Unavailable: the queue is full (`queue_full`), or the broker does not answer for `_PATIENCE` seconds.
        """

        async def put() -> TurnRef:
            await submit(self.bus, await offload_request(self.bus, request))
            return TurnRef.of(request)

        return await retry_while_unavailable(put, "queue a replay", deadline=_PATIENCE, unless="queue_full")
