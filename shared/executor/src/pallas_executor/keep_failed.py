"""Keeps what failed turns were asked for as long as their agent says (`keep_failed`), sealed for operators.

It is kept before the outcome is written: a turn that the log shows as failed can be replayed. A turn does not fail, and
does not wait for long, because this is impossible; it is then kept as long as other content.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_bus.turnlog.content.claim_checks import whole_request
from pallas_bus.turnlog.content.sealed import ORIGINAL, REQUEST, SealKey, keep_sealed
from pallas_bus.turnlog.dead_letters import original_of
from pallas_bus.turnlog.queue import Delivery
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import TurnRequested
from pallas_executor.conclude_turn import kept_request

log = logging.getLogger(__name__)

_DEADLINE = 10.0
"""Seconds after which the turn is ended without."""


@dataclass(frozen=True)
class KeepFailed:
    """Seals with `key`, the public key of operators; without one nothing is kept."""

    bus: Bus
    key: SealKey | None

    async def request(self, request: TurnRequested, definition: AgentDefinition) -> None:
        """Keep what the turn was asked, with all its content and without the caller's ids."""

        async def data() -> bytes:
            kept = kept_request(await whole_request(self.bus, request), definition)
            return kept.model_dump_json().encode()

        await self._keep(TurnRef.of(request), REQUEST, data, definition)

    async def original(self, delivery: Delivery, ref: TurnRef, definition: AgentDefinition) -> None:
        """Keep the message of a dead letter as it was; `ref` has the letter's name as the id of its turn."""

        async def data() -> bytes:
            return original_of(delivery, team=ref.team, agent=ref.agent, letter=ref.turn_id).model_dump_json().encode()

        await self._keep(ref, ORIGINAL, data, definition)

    async def _keep(
        self, ref: TurnRef, name: str, data: Callable[[], Awaitable[bytes]], definition: AgentDefinition
    ) -> None:
        key, seconds = self.key, definition.limits.keep_failed
        if key is None or not seconds:
            return

        async def put() -> None:
            await keep_sealed(self.bus, ref, name, await data(), key, ttl=seconds)

        try:
            await retry_while_unavailable(put, "keep what a failed turn was asked", deadline=_DEADLINE)
        except PallasError as error:
            log.error("what a failed turn was asked cannot be kept", extra={"reason": error.message})
