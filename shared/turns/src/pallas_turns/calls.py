"""Calls of agents: each becomes a turn, which is followed to its end, resumed, or cancelled.

`call` takes a request through `admit_turn`, `submit_turn` and `relay_turn`. All turns of callers are made here, so that
the limits of an agent hold for all of them. Idempotency keys are a layer around it (`keyed`), which it does not know.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from pallas_bus.connection import Bus
from pallas_bus.kv import Table
from pallas_bus.leaders import Leaders, watch_leaders
from pallas_contracts.agents import GatewayPresence, Limits, WorkerPresence
from pallas_contracts.catalog import CONSTELLATION, PIPELINES_TEAM, TURN_LOG, TURN_QUEUE
from pallas_contracts.turns import Claimed, Fault, TurnAsked, TurnRequested
from pallas_turns.admission import AdmitTurn, TurnRates
from pallas_turns.cancel import WaitingTurn, WaitingTurns, cancel_turn, withdraw_turn
from pallas_turns.claims import Cursor, TurnRef, Waiting
from pallas_turns.feed import TurnFeed
from pallas_turns.feeds import TurnFeeds, follow_turns
from pallas_turns.liveness import WorkerLiveness, watch_workers
from pallas_turns.metrics import CallMetrics
from pallas_turns.model import CheckBudget, Observer, Refusal, TurnEnd
from pallas_turns.positions import QueuePosition, QueuePositions
from pallas_turns.relay import relay_turn, resume_turn, whole_answer
from pallas_turns.store import STORE_BYTES, TEAM_SHARE, watch_store
from pallas_turns.submit import Submitted, nowhere_to_store, submit_turn

log = logging.getLogger(__name__)


@dataclass
class Calls:
    """Makes and follows turns. Made by `make_calls`.

    `draining`: the process itself ends its calls, so a cancelled call cancels no turn.
    """

    bus: Bus
    leaders: Leaders
    feeds: TurnFeeds
    admission: AdmitTurn
    liveness: WorkerLiveness
    presences: Table[WorkerPresence]
    metrics: CallMetrics
    draining: bool = False
    waiting: WaitingTurns = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = WaitingTurns(self.bus, self.presences, self.metrics.turns.ended)

    async def call(self, request: TurnRequested, limits: Limits, observer: Observer) -> TurnEnd | Refusal:
        """Make the turn and follow it to its end.

        When this is cancelled because the caller left (`Observer.caller_left`), the turn is cancelled, too.
        """
        submitted = await self.submit(request, limits, observer)
        return submitted if isinstance(submitted, Refusal) else await self.follow(submitted, limits, observer)

    async def submit(self, request: TurnRequested, limits: Limits, observer: Observer) -> Submitted | Refusal:
        """Make the turn. One that is shared may have been made before: see `Submitted.joined`."""
        if self.leaders.lost:
            return self.refuse(request, nowhere_to_store())
        submitted = await self._admit_and_submit(request, limits, observer)
        if isinstance(submitted, Refusal):
            self.refuse(request, submitted)
        elif not submitted.joined:
            self.metrics.turn_accepted(request)
        return submitted

    def cannot_store(self) -> Refusal | None:
        """Why no turn can be stored now; None as far as is known."""
        return nowhere_to_store() if self.leaders.lost else None

    async def _admit_and_submit(
        self, request: TurnRequested, limits: Limits, observer: Observer
    ) -> Submitted | Refusal:
        admitted = await self.admission.admit_turn(request, limits)
        if isinstance(admitted, Refusal):
            return admitted
        if admitted is not None:
            request = request.model_copy(update={"allowance": admitted})
        caller = request.principal.token
        entering = self.admission.positions.entering(request.team, request.agent, caller)
        with self.metrics.in_flight.track_inprogress(), entering:
            await observer.on_admitted()
            try:
                return await submit_turn(self.bus, self.feeds, request, text=observer.text)
            except asyncio.CancelledError:  # before, there is nothing to cancel
                self.left(request, 0, observer)
                raise

    async def follow(self, submitted: Submitted, limits: Limits, observer: Observer) -> TurnEnd | Refusal:
        """Follow a turn that was submitted to its end, or until it is given up because nobody can execute it."""
        request = submitted.request
        try:
            with self._waits(submitted, limits.queue_timeout) as waiting:
                end = await self.relay(TurnRef.of(request), submitted.feed, submitted, observer, waiting=waiting)
        except asyncio.CancelledError:
            self.left(request, submitted.position, observer)
            raise
        return end if waiting.given_up is None else self.refuse(request, waiting.given_up)

    async def relay(
        self,
        ref: TurnRef,
        feed: TurnFeed,
        queued: Submitted | Waiting | None,
        observer: Observer,
        *,
        waiting: WaitingTurn | None = None,
    ) -> TurnEnd:
        """Follow the turn; `queued` is its message in the queue, None when it is not known to wait there."""
        try:
            with (
                self.metrics.in_flight.track_inprogress(),
                nullcontext() if queued is None else self._position(ref, queued) as position,
                self.liveness.holding(ref.turn_id) as taken,
            ):
                turn = _Followed(self, ref, queued, position, taken, self.metrics.relaying(ref), waiting)
                end = await relay_turn(feed, observer, turn)
            return await whole_answer(self.bus, end)
        finally:
            self.feeds.close(feed)

    def _waits(self, queued: Submitted | Waiting, patience: float | None) -> WaitingTurn:
        return WaitingTurn(self.waiting, queued.request, queued.position, patience)

    def _position(self, ref: TurnRef, queued: Submitted | Waiting) -> QueuePosition:
        caller = queued.request.principal.token
        return self.admission.positions.waiting(ref.team, ref.agent, caller, queued.position)

    async def resume(self, ref: TurnRef, behind: Cursor, observer: Observer, *, progress: bool) -> TurnEnd | None:
        """Follow a turn again, from the cursor `behind` to its end. None: its log has expired.

        `progress`: whether the caller wants progress.
        """
        self.metrics.stream_resumed(ref)
        resumed = await resume_turn(self.bus, self.feeds, ref, behind, progress=progress, text=observer.text)
        if resumed is None:
            return None
        waits = nullcontext() if resumed.waiting is None else self._waits(resumed.waiting, None)
        with waits as waiting:
            end = await self.relay(ref, resumed.feed, resumed.waiting, observer, waiting=waiting)
        if waiting is None or waiting.given_up is None:
            return end
        return replace(end, answer=Fault(message=waiting.given_up.message))

    async def cancel(self, ref: TurnRef, reason: str, asked: TurnRequested | TurnAsked | None = None) -> None:
        """Cancel a turn for good, as `cancel_turn` does."""
        await cancel_turn(self.bus, ref, reason, asked)

    def left(self, request: TurnRequested, position: int, observer: Observer) -> None:
        """A call is cancelled: cancel its turn in the background, if its caller has left and nobody else may want it.

        A shared turn goes on, unless it is the child of another; a child is cancelled also when this drains. `position`
        is the one in the queue's stream; 0 when it is not known whether the turn is there.
        """
        is_own = request.parent is not None or not (request.is_shared or self.draining)
        if is_own and observer.caller_left():
            self.bus.spawn(self._cancel(request, position, observer.why_left()))

    async def _cancel(self, request: TurnRequested, position: int, reason: str) -> None:
        await cancel_turn(self.bus, TurnRef.of(request), reason, request)
        await self.withdraw(request, position)

    async def withdraw(self, request: TurnRequested, position: int) -> None:
        """Write the outcome of a cancelled turn that no worker has claimed, and remove it from its queue."""
        await withdraw_turn(self.bus, request, position, self.metrics.turns.ended)

    def refuse(self, request: TurnRequested, refused: Refusal) -> Refusal:
        """Count a refusal, and return it."""
        self.metrics.call_refused(request.team, request.agent, refused)
        return refused


@dataclass(frozen=True, slots=True)
class _Followed:
    """A turn that is followed here; see `FollowedTurn`. `taken` records the worker that holds it."""

    calls: Calls
    ref: TurnRef
    queued: Submitted | Waiting | None
    position: QueuePosition | None
    taken: Callable[[Claimed], None]
    on_relayed: Callable[[], None]
    waiting: WaitingTurn | None

    async def ahead(self) -> int | None:
        return await self.position.ahead() if self.position is not None else None

    def on_claim(self, claim: Claimed) -> None:
        if self.position is not None:
            self.position.leave()
        if self.waiting is not None:
            self.waiting.claim = claim
        self.taken(claim)

    def on_log_lost(self) -> None:
        if self.waiting is not None:
            self.waiting.log_lost()

    def on_cancelled_in_queue(self) -> None:
        if self.queued is not None:
            self.calls.bus.spawn(self.calls.withdraw(self.queued.request, self.queued.position))


def submitters(gateways: Table[GatewayPresence], presences: Table[WorkerPresence]) -> int:
    """The number of processes that make turns for callers."""
    own = f"{PIPELINES_TEAM}.{CONSTELLATION}"
    return len(gateways) + sum(own in presence.agents for presence in presences.values())


@asynccontextmanager
async def make_calls(
    bus: Bus,
    gateways: Table[GatewayPresence],
    presences: Table[WorkerPresence],
    metrics: CallMetrics,
    *,
    budget: CheckBudget | None = None,
    alone: bool = False,
    store_bytes: int = STORE_BYTES,
    team_share: float = TEAM_SHARE,
) -> AsyncGenerator[Calls]:
    """Yield what makes calls. All processes that make turns share the rate of an agent.

    `alone`: most turns are made by others (see `follow_turns`).
    The broker may store `store_bytes`, and one team takes at most the part `team_share` of it.
    """
    async with (
        watch_leaders(bus, TURN_QUEUE, TURN_LOG) as leaders,
        follow_turns(bus, alone=alone) as feeds,
        watch_workers(bus) as liveness,
        watch_store(bus, store_bytes, team_share) as store,
    ):
        rates = TurnRates(partial(submitters, gateways, presences))
        admission = AdmitTurn(presences, QueuePositions(bus), rates, store, budget)
        calls = Calls(bus, leaders, feeds, admission, liveness, presences, metrics)
        giving_up = bus.spawn(calls.waiting.keep())
        bus.on_made_again(TURN_LOG.name, calls.waiting.log_lost)
        bus.on_made_again(TURN_QUEUE.name, calls.waiting.queue_lost)
        try:
            yield calls
        finally:
            giving_up.cancel()
