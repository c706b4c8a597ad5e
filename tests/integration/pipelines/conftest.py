"""The lab of each test."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest
from tests.conftest import Connecting
from tests.integration.pipelines.lab import Lab
from tests.integration.real_parts import OWNED

from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY
from pallas_turns.feeds import follow_turns


@pytest.fixture
async def lab(bus: Connecting, nats_url: str) -> AsyncGenerator[Lab]:
    """A lab without a replica yet."""
    gateway = await bus(GATEWAY)
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        yield Lab(gateway, feeds, nats_url, stack)
