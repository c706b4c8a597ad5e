"""Who follows a turn with an idempotency key through this gateway, told to whoever leaves one and asks."""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from agent_gateway.handlers.patience import patiently
from pallas_bus.connection import Bus
from pallas_bus.turn_callers import hear_left, say_joined
from pallas_bus.turn_claims import Address
from pallas_contracts.errors import PallasError

log = logging.getLogger(__name__)


@dataclass
class Followers:
    """The turns that are followed here, by how many. Made by `watch_followers`."""

    bus: Bus
    _followed: Counter[Address] = field(default_factory=Counter[Address])
    _contexts: dict[Address, Context] = field(default_factory=dict[Address, Context])
    _answered: dict[Address, int] = field(default_factory=dict[Address, int])
    """Positions of the last leaves that were answered."""

    @contextmanager
    def following(self, address: Address) -> Generator[None]:
        """Count a caller for as long as the block lasts; inside it nobody else's leaving ends the turn."""
        self._followed[address] += 1
        self._contexts.setdefault(address, copy_context())
        try:
            yield
        finally:
            self._followed[address] -= 1
            if not self._followed[address]:
                del self._followed[address], self._contexts[address]
                self._answered.pop(address, None)

    def followed(self) -> list[Address]:
        """The turns that are followed here right now."""
        return list(self._followed)

    def left(self, address: Address, position: int) -> None:
        """A caller has left a turn, here or at another gateway; that may be told more than once."""
        if address in self._followed and position > self._answered.get(address, 0):
            self._answered[address] = position
            self.announce(address, self._contexts[address].copy())

    def announce(self, address: Address, context: Context | None = None) -> None:
        """Say that the turn is followed here, without waiting for that; in the context of who follows it."""
        self.bus.spawn(self._announce(address), context=context)

    async def _announce(self, address: Address) -> None:
        async def say() -> None:
            if address in self._followed:  # else it has been left meanwhile, and said to be so
                await say_joined(self.bus, address)

        try:
            await patiently(say, "say that a turn is followed", address)
        except PallasError as error:
            log.error("not said: the turn is followed", extra={"turn": address.turn_id, "reason": error.message})


@asynccontextmanager
async def watch_followers(bus: Bus) -> AsyncGenerator[Followers]:
    """Answer whoever leaves a turn, inside the block."""
    followers = Followers(bus)
    async with hear_left(bus, followers.left, followers.followed):
        yield followers
