"""The turns with an idempotency key that callers follow through this gateway.

When a caller leaves such a turn anywhere, a gateway where another still follows it publishes that.
"""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_bus.turnlog.followers import publish_joined, watch_leaves
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.errors import PallasError

log = logging.getLogger(__name__)


@dataclass
class Followers:
    """How many callers follow which turn here. Made by `watch_followers`."""

    bus: Bus
    _followed: Counter[TurnRef] = field(default_factory=Counter[TurnRef])
    _contexts: dict[TurnRef, Context] = field(default_factory=dict[TurnRef, Context])
    _answered: dict[TurnRef, int] = field(default_factory=dict[TurnRef, int])
    """The position of the last leave that was answered, by turn."""

    @contextmanager
    def following(self, ref: TurnRef) -> Generator[None]:
        """Count a caller inside the block; meanwhile the turn is not cancelled because another caller leaves."""
        self._followed[ref] += 1
        self._contexts.setdefault(ref, copy_context())
        try:
            yield
        finally:
            self._followed[ref] -= 1
            if not self._followed[ref]:
                del self._followed[ref], self._contexts[ref]
                self._answered.pop(ref, None)

    def followed(self) -> list[TurnRef]:
        """The turns that are followed here now."""
        return list(self._followed)

    def left(self, ref: TurnRef, position: int) -> None:
        """A caller has left a turn, here or at another gateway. May be called more than once for one leave."""
        if ref in self._followed and position > self._answered.get(ref, 0):
            self._answered[ref] = position
            self.announce(ref, self._contexts[ref].copy())

    def announce(self, ref: TurnRef, context: Context | None = None) -> None:
        """Publish in the background, in the given context, that the turn is followed here."""
        self.bus.spawn(self._announce(ref), context=context)

    async def _announce(self, ref: TurnRef) -> None:
        async def publish() -> None:
            if ref in self._followed:  # else its last caller has left meanwhile, which was published
                await publish_joined(self.bus, ref)

        facts = {"turn": ref.turn_id}
        try:
            await retry_while_unavailable(publish, "publish that the turn is followed", facts=facts)
        except PallasError as error:
            log.error("not published: the turn is followed", extra={**facts, "reason": error.message})


@asynccontextmanager
async def watch_followers(bus: Bus) -> AsyncGenerator[Followers]:
    """Answer leaves of turns that are followed here, inside the block."""
    followers = Followers(bus)
    async with watch_leaves(bus, followers.left, followers.followed):
        yield followers
