"""Watches which turns the broker has accepted, independently of the platform: a request, and its confirmation.

It may miss turns: while the broker is away it receives nothing.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from nats.aio.msg import Msg

from pallas_bus.transport.connection import Bus
from pallas_contracts.catalog import GATEWAY, TURN_REQUESTED
from pallas_contracts.turns import TurnRequested


@dataclass
class Witness:
    """The turns that were confirmed, and the turns of each key that were requested."""

    accepted: set[str] = field(default_factory=set[str])
    by_key: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _requests: dict[str, str] = field(default_factory=dict[str, str])
    _confirmations: set[str] = field(default_factory=set[str])

    async def requested(self, message: Msg) -> None:
        """A gateway submits a turn."""
        request = TurnRequested.model_validate_json(message.data)
        self._requests[message.reply] = request.turn_id
        self._match(message.reply)
        key = request.correlation or request.arguments.get("key")
        if isinstance(key, str):
            turns = self.by_key.setdefault(key, [])
            if request.turn_id not in turns:
                turns.append(request.turn_id)

    async def confirmed(self, message: Msg) -> None:
        """The broker answers a gateway."""
        if b'"stream":"TURN_QUEUE"' in message.data and "error" not in json.loads(message.data):
            self._confirmations.add(message.subject)
            self._match(message.subject)

    def _match(self, reply: str) -> None:
        """The request and its confirmation may arrive in either order."""
        if reply in self._confirmations and reply in self._requests:
            self.accepted.add(self._requests[reply])


@asynccontextmanager
async def witnessing(bus: Bus) -> AsyncGenerator[Witness]:
    """Watch inside the block."""
    witness = Witness()
    await bus.subscribe(TURN_REQUESTED.template.filter(), witness.requested)
    await bus.subscribe(f"_INBOX.{GATEWAY}.>", witness.confirmed)
    yield witness
