"""Watches which turns the broker has accepted, independently of the platform: a request, and its confirmation.

It sees the turns that executions make as well.

It may miss turns: while the broker is away it receives nothing.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from nats.aio.msg import Msg
from tests.chaos.evidence import Child

from pallas_bus.connection import Bus
from pallas_contracts.catalog import GATEWAY, PIPELINES, TURN_REQUESTED
from pallas_contracts.turns import TurnRequested


@dataclass
class Witness:
    """The turns that were confirmed, the turns of each key that were requested, and those that executions have made."""

    accepted: set[str] = field(default_factory=set[str])
    by_key: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    children: set[Child] = field(default_factory=set[Child])
    _requests: dict[str, str] = field(default_factory=dict[str, str])
    _confirmations: set[str] = field(default_factory=set[str])

    async def requested(self, message: Msg) -> None:
        """A turn is submitted."""
        request = TurnRequested.model_validate_json(message.data)
        self._requests[message.reply] = request.turn_id
        self._match(message.reply)
        given = {**request.arguments, **request.arguments.get("inputs", {})}
        key = request.correlation or given.get("key") or given.get("conversation_id")
        if isinstance(key, str) and request.parent is not None:
            self.children.add(Child(request.turn_id, request.parent, key))
        elif isinstance(key, str):
            turns = self.by_key.setdefault(key, [])
            if request.turn_id not in turns:
                turns.append(request.turn_id)

    async def confirmed(self, message: Msg) -> None:
        """The broker answers whoever has submitted."""
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
    for service in (GATEWAY, PIPELINES):
        await bus.subscribe(f"_INBOX.{service}.>", witness.confirmed)
    yield witness
