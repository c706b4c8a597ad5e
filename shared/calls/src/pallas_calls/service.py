"""Calls of agents: each becomes a turn, which is followed to its end, resumed, or cancelled.

`call` takes a request through `admit_turn`, `join_turn` (with an idempotency key), `submit_turn` and `relay_turn`.
All turns of callers are made here, so that the limits of an agent hold for all of them.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_bus.transport.leaders import Leaders, watch_leaders
from pallas_bus.turnlog.cursor import Cursor
from pallas_bus.turnlog.feed import TurnFeed
from pallas_bus.turnlog.feeds import TurnFeeds, follow_turns
from pallas_bus.turnlog.lookup import Waiting
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_calls.admission.admit_turn import AdmitTurn
from pallas_calls.admission.budgets import watch_budgets
from pallas_calls.admission.failed_agents import failed_to_start
from pallas_calls.admission.held_agents import held
from pallas_calls.admission.queue_positions import QueuePosition, QueuePositions
from pallas_calls.admission.store_shares import STORE_BYTES, TEAM_SHARE, watch_store
from pallas_calls.admission.turn_rates import TurnRates
from pallas_calls.admission.waiting_turns import WaitingTurn, WaitingTurns
from pallas_calls.cancel_turn import cancel_turn
from pallas_calls.keyed.cancel_key import cancel_key
from pallas_calls.keyed.followers import Followers, watch_followers
from pallas_calls.keyed.join_turn import explain_cancel, join_turn
from pallas_calls.keyed.leave_turn import leave_turn
from pallas_calls.metrics import CallMetrics
from pallas_calls.model import Refusal, TurnEnd
from pallas_calls.observer import Observer
from pallas_calls.relay_turn import relay_turn
from pallas_calls.resume_turn import resume_turn
from pallas_calls.submit_turn import Submitted, not_confirmed, nowhere_to_store, submit_turn
from pallas_calls.whole_answer import whole_answer
from pallas_calls.worker_liveness import WorkerLiveness, watch_workers
from pallas_contracts.agents import GatewayPresence, Limits, WorkerPresence
from pallas_contracts.catalog import CONSTELLATION, PIPELINES_TEAM, TURN_LOG, TURN_QUEUE
from pallas_contracts.costs import Allowance
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, Fault, Principal, TurnAsked, TurnRequested

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
    followers: Followers
    metrics: CallMetrics
    draining: bool = False
    waiting: WaitingTurns = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = WaitingTurns(self.bus, self.presences, self.metrics.turns.ended)

    async def call(self, request: TurnRequested, limits: Limits, observer: Observer) -> TurnEnd | Refusal:
        """Make the turn, or join the one that its idempotency key made before, and follow it to its end.

        When this is cancelled because the caller left (`Observer.caller_left`), the turn is cancelled in the
        background; with an idempotency key it runs on for the grace time in `limits`, in which it can be joined.
        """
        with self.followers.following(TurnRef.of(request)) if request.digest is not None else nullcontext():
            submitted = await self._submit_or_join(request, limits, observer)
            if isinstance(submitted, Refusal):
                return submitted
            try:
                with self._waits(submitted, limits.queue_timeout) as waiting:
                    end = await self._follow(TurnRef.of(request), submitted.feed, submitted, observer, waiting=waiting)
            except asyncio.CancelledError:
                self._left(request, limits, submitted.position, observer)
                raise
        if waiting.given_up is not None:
            return self._refuse(request, waiting.given_up)
        return await explain_cancel(self.bus, TurnRef.of(request), end) if request.digest is not None else end

    async def call_child(
        self, request: TurnRequested, limits: Limits, observer: Observer, *, again: bool
    ) -> TurnEnd | Refusal:
        """Make the turn of a call inside another turn, and follow it to its end.

        Its id follows from its parent and its place there (`child_id`), so it is made once: with `again` an earlier
        attempt may have made it. Whoever cancels the parent cancels its children; when this is cancelled, the turn is
        cancelled only if `Observer.caller_left`.
        """
        try:
            submitted = await self._submit_or_join(request, limits, observer, first=not again)
        except asyncio.CancelledError:
            if again:
                self._left(request, limits, 0, observer)
            raise
        if isinstance(submitted, Refusal):
            return submitted
        try:
            with self._waits(submitted, limits.queue_timeout) as waiting:
                end = await self._follow(TurnRef.of(request), submitted.feed, submitted, observer, waiting=waiting)
        except asyncio.CancelledError:
            self._left(request, limits, submitted.position, observer)
            raise
        return end if waiting.given_up is None else self._refuse(request, waiting.given_up)

    async def resume(
        self, ref: TurnRef, caller: Principal, behind: Cursor, observer: Observer, *, progress: bool
    ) -> TurnEnd | None:
        """Follow a turn again, from the cursor `behind` to its end. None: its log has expired.

        `progress`: whether the caller wants progress.
        """
        self.metrics.stream_resumed(ref)
        resumed = await resume_turn(self.bus, self.feeds, ref, caller, behind, progress=progress, text=observer.text)
        if resumed is None:
            return None
        waits = nullcontext() if resumed.waiting is None else self._waits(resumed.waiting, None)
        with self.followers.following(ref), waits as waiting:
            end = await self._follow(ref, resumed.feed, resumed.waiting, observer, resumed=True, waiting=waiting)
        if waiting is None or waiting.given_up is None:
            return end
        return replace(end, answer=Fault(message=waiting.given_up.message))

    async def cancel(self, ref: TurnRef, reason: str, asked: TurnRequested | TurnAsked | None = None) -> None:
        """Cancel a turn for good, as `cancel_turn` does."""
        await cancel_turn(self.bus, ref, reason, asked)

    async def cancel_key(self, request: TurnRequested) -> TurnEnd | Refusal:
        """Cancel the turn of the request's idempotency key, whoever follows it. Returns its end if it was over before.

        The arguments of the request do not matter. The key is used up: whatever is called with it later is cancelled.
        """
        submitted = await cancel_key(self.bus, self.feeds, request, self.metrics.turns.ended)
        if isinstance(submitted, Refusal):
            return submitted
        end = await self._follow(submitted.feed.ref, submitted.feed, None, Observer())
        return await explain_cancel(self.bus, TurnRef.of(request), end)

    async def _submit_or_join(
        self, request: TurnRequested, limits: Limits, observer: Observer, *, first: bool = False
    ) -> Submitted | Refusal:
        """Submit the turn, or join it if it has an idempotency key; `first`: nobody can have made it before."""
        if self.leaders.lost:
            return self._refuse(request, nowhere_to_store())
        if request.digest is None:
            return await self._submit(request, limits, observer)
        if not first and (found := await self._join(request, observer)) is not None:
            return found
        submitted = await self._submit(request, limits, observer)
        if isinstance(submitted, Refusal):
            if submitted.turn_id is not None and request.parent is None:
                self._leave(request, limits, 0, observer)  # the turn may be in its queue, and nobody follows it
            return submitted
        if not submitted.joined:
            self._announce(request)
            return submitted
        self.feeds.close(submitted.feed)  # it misses the beginning: another call has made the turn before
        return await self._join(request, observer, submitted.position) or not_confirmed(request)

    async def _submit(self, request: TurnRequested, limits: Limits, observer: Observer) -> Submitted | Refusal:
        submitted = await self._admit_and_submit(request, limits, observer)
        if isinstance(submitted, Refusal):
            self._refuse(request, submitted)
        elif not submitted.joined:
            self.metrics.turn_accepted(request)
        return submitted

    def _refuse(self, request: TurnRequested, refused: Refusal) -> Refusal:
        self.metrics.call_refused(request.team, request.agent, refused)
        return refused

    async def _admit_and_submit(
        self, request: TurnRequested, limits: Limits, observer: Observer
    ) -> Submitted | Refusal:
        if (failed := failed_to_start(self.presences, request.team, request.agent)) is not None:
            return failed
        if (refused := held(self.presences.values(), request.team, request.agent)) is not None:
            return refused
        admitted = await self.admission.admit_turn(request, limits)
        if isinstance(admitted, Allowance) or (admitted is not None and admitted.limit == "team_budget"):
            share = partial(self.admission.budgets.share, request.team, limits.budget)
            self.metrics.budget_applies(request.team, share)
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
                self._left(request, limits, 0, observer)
                raise

    async def _join(self, request: TurnRequested, observer: Observer, position: int = 0) -> Submitted | Refusal | None:
        found = await join_turn(self.bus, self.feeds, request, position, text=observer.text)
        if isinstance(found, Submitted):
            try:
                await observer.on_admitted()
            except BaseException:
                self.feeds.close(found.feed)
                raise
            self.metrics.turn_joined(request)
            self._announce(request)
        return found

    def _announce(self, request: TurnRequested) -> None:
        """Publish that a caller follows the turn; a child runs until its parent ends it."""
        if request.parent is None:
            self.followers.announce(TurnRef.of(request))

    async def _follow(
        self,
        ref: TurnRef,
        feed: TurnFeed,
        queued: Submitted | Waiting | None,
        observer: Observer,
        *,
        resumed: bool = False,
        waiting: WaitingTurn | None = None,
    ) -> TurnEnd:
        """Follow the turn; `queued` is its message in the queue, None when it is not known to wait there."""
        try:
            with (
                self.metrics.in_flight.track_inprogress(),
                self._position(ref, queued) as position,
                self.liveness.holding(ref.turn_id) as taken,
            ):
                turn = _Followed(self, ref, queued, position, taken, self.metrics.relaying(ref), resumed, waiting)
                end = await relay_turn(feed, observer, turn)
            return await whole_answer(self.bus, end)
        finally:
            self.feeds.close(feed)

    def _waits(self, queued: Submitted | Waiting, patience: float | None) -> WaitingTurn:
        return WaitingTurn(self.waiting, queued.request, queued.position, patience)

    def _position(
        self, ref: TurnRef, queued: Submitted | Waiting | None
    ) -> AbstractContextManager[QueuePosition | None]:
        if queued is None:
            return nullcontext()
        caller = queued.request.principal.token
        return self.admission.positions.waiting(ref.team, ref.agent, caller, queued.position)

    def _left(self, request: TurnRequested, limits: Limits, position: int, observer: Observer) -> None:
        """The call is cancelled: leave the turn if its caller has left. A child is cancelled also when this drains."""
        if not observer.caller_left():
            return
        if request.parent is not None:
            self.bus.spawn(self._cancel(request, position, observer.why_left()))
        elif not self.draining:
            self._leave(request, limits, position, observer)

    def _leave(self, request: TurnRequested, limits: Limits, position: int, observer: Observer) -> None:
        """Cancel the turn in the background, or with an idempotency key leave it for the grace time.

        `position` is the one in the queue's stream; 0 when it is not known whether the turn is there.
        """
        if request.digest is not None:
            ended = self.metrics.turns.ended
            self.bus.spawn(leave_turn(self.bus, request, position, limits.grace, ended))
        else:
            self.bus.spawn(self._cancel(request, position, observer.why_left()))

    async def _cancel(self, request: TurnRequested, position: int, reason: str) -> None:
        await cancel_turn(self.bus, TurnRef.of(request), reason, request)
        await self.withdraw(request, position)

    async def withdraw(self, request: TurnRequested, position: int) -> None:
        """Write the outcome of a cancelled turn that no worker has claimed, and remove it from its queue."""
        await withdraw_turn(self.bus, request, position, self.metrics.turns.ended)


@dataclass(frozen=True, slots=True)
class _Followed:
    """A turn that is followed here; see `FollowedTurn`. `taken` records the worker that holds it."""

    calls: Calls
    ref: TurnRef
    queued: Submitted | Waiting | None
    position: QueuePosition | None
    taken: Callable[[Claimed], None]
    on_relayed: Callable[[], None]
    resumed: bool
    waiting: WaitingTurn | None

    async def ahead(self) -> int | None:
        return await self.position.ahead() if self.position is not None else None

    def on_claim(self, claim: Claimed) -> None:
        if self.position is not None:
            self.position.leave()
        if self.waiting is not None:
            self.waiting.claim = claim
        self.taken(claim)
        if self.resumed and claim.digest is not None:
            self.calls.followers.announce(self.ref)

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
    alone: bool = False,
    now: Callable[[], datetime] = utc_now,
    store_bytes: int = STORE_BYTES,
    team_share: float = TEAM_SHARE,
) -> AsyncGenerator[Calls]:
    """Yield what makes calls. All processes that make turns share the rate of an agent.

    `alone`: most turns are made by others (see `follow_turns`). `now` is the clock of budgets.
    The broker may store `store_bytes`, and one team takes at most the part `team_share` of it.
    """
    async with (
        watch_leaders(bus, TURN_QUEUE, TURN_LOG) as leaders,
        follow_turns(bus, alone=alone) as feeds,
        watch_workers(bus) as liveness,
        watch_followers(bus) as followers,
        watch_budgets(bus, now) as budgets,
        watch_store(bus, store_bytes, team_share) as store,
    ):
        rates = TurnRates(partial(submitters, gateways, presences))
        admission = AdmitTurn(QueuePositions(bus), rates, budgets, store)
        calls = Calls(bus, leaders, feeds, admission, liveness, presences, followers, metrics)
        giving_up = bus.spawn(calls.waiting.keep())
        try:
            yield calls
        finally:
            giving_up.cancel()
