"""Calls with an idempotency key: found before anything is made of them, followed by several, left for a while."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from agent_gateway.metrics import Metrics
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.feeds import TurnFeeds
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.keyed.followers import Followers
from pallas_calls.keyed.join_turn import explain_cancel, join_turn
from pallas_calls.keyed.leave_turn import leave_turn
from pallas_calls.model import Refusal, TurnEnd
from pallas_calls.submit_turn import Submitted, not_confirmed
from pallas_contracts.agents import Limits
from pallas_contracts.turns import TurnRequested

type Submit = Callable[[], Awaitable[Submitted | Refusal]]


@dataclass
class KeyedTurns:
    """What turns with a key need besides what all do; of those without one everything here is nothing."""

    bus: Bus
    feeds: TurnFeeds
    followers: Followers
    metrics: Metrics

    def following(self, request: TurnRequested) -> AbstractContextManager[None]:
        """Inside the block a caller follows the turn; to be entered before anything else is done for it."""
        return self.followers.following(TurnRef.of(request)) if request.digest is not None else nullcontext()

    async def submit(
        self, request: TurnRequested, limits: Limits, before: Callable[[], Awaitable[None]], submit: Submit
    ) -> Submitted | Refusal:
        """Join the turn if it is there, else `submit()` it. `before()` comes first in both."""
        if request.digest is None:
            return await submit()
        found = await self._join(request, before)
        if found is not None:
            return found
        submitted = await submit()
        if isinstance(submitted, Refusal):
            if submitted.turn_id is not None:  # it may be in its queue, with nobody there to follow it
                self.leave(request, limits, 0)
            return submitted
        if not submitted.joined:
            self.followers.announce(TurnRef.of(request))
            return submitted
        self.feeds.close(submitted.feed)  # it was opened too late for a turn that somebody else has made
        return await self._join(request, before, submitted.position) or not_confirmed(request)

    async def _join(
        self, request: TurnRequested, before: Callable[[], Awaitable[None]], position: int = 0
    ) -> Submitted | Refusal | None:
        found = await join_turn(self.bus, self.feeds, request, position)
        if isinstance(found, Submitted):
            try:
                await before()
            except BaseException:
                self.feeds.close(found.feed)
                raise
            self.metrics.turn_joined(request)
            self.followers.announce(TurnRef.of(request))
        return found

    def leave(self, request: TurnRequested, limits: Limits, position: int) -> None:
        """A caller has left: let the turn go on for the agent's grace time, without waiting for that."""
        self.bus.spawn(leave_turn(self.bus, request, position, limits.grace, self.metrics.turns.ended))

    async def explain(self, request: TurnRequested, end: TurnEnd) -> TurnEnd:
        """The end of the turn, with the reason if it was cancelled."""
        return await explain_cancel(self.bus, end) if request.digest is not None else end
