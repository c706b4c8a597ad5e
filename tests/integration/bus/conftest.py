"""The declared streams of turns."""

from typing import Protocol

import pytest
from tests.conftest import Connecting

from pallas_bus.connection import Bus
from pallas_bus.streams import declare
from pallas_contracts.catalog import TURN_LOG, TURN_OBJECTS, TURN_QUEUE


class Declaring(Protocol):
    """Connects a gateway with the turn streams declared."""

    async def __call__(self, url: str | None = None) -> Bus:
        """Return the gateway's connection."""
        ...


@pytest.fixture
def turns(bus: Connecting) -> Declaring:
    """`await turns()` connects a gateway and declares the queue and the log of turns."""

    async def make(url: str | None = None) -> Bus:
        gateway = await bus("agent-gateway", url=url)
        await declare(gateway, TURN_QUEUE, TURN_LOG, TURN_OBJECTS)
        return gateway

    return make
