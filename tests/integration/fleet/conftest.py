"""The lab of each test."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest
from tests.conftest import Connecting
from tests.integration.fleet.lab import QUICK, Lab
from tests.integration.real_parts import OWNED

from fleet.running import watching
from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY
from pallas_demo.coder import CoderStandIn, StandInSettings
from pallas_turns.feeds import follow_turns


@pytest.fixture
async def lab(bus: Connecting, nats_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Lab]:
    """A lab without a replica yet. Watchers are less patient than in earnest, and terminals are sooner stable."""
    monkeypatch.setattr(watching, "STABLE_SECONDS", 0.3)
    monkeypatch.setattr(watching, "_STARTING_SECONDS", 0.1)
    gateway = await bus(GATEWAY)
    await declare(gateway, *OWNED)
    async with (
        CoderStandIn(StandInSettings(build_seconds=0.02, terminal=QUICK)) as coder,
        AsyncExitStack() as stack,
        follow_turns(gateway) as feeds,
    ):
        yield Lab(gateway, feeds, nats_url, coder, stack)
