"""All tools in any order do what a small model says."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.integration.fleet.lab import QUICK, Lab
from tests.integration.fleet.machine import FleetMachine
from tests.integration.real_parts import OWNED

from fleet.running import watching
from pallas_bus.connection import connect
from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY
from pallas_demo.coder import CoderStandIn, StandInSettings
from pallas_turns.feeds import follow_turns

LIVES = settings(
    max_examples=10,
    stateful_step_count=14,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
)


@asynccontextmanager
async def a_lab(url: str) -> AsyncGenerator[Lab]:
    """A lab with two replicas."""
    async with (
        connect(url, GATEWAY) as bus,
        CoderStandIn(StandInSettings(build_seconds=0.02, terminal=QUICK)) as coder,
        AsyncExitStack() as stack,
    ):
        await declare(bus, *OWNED)
        async with follow_turns(bus) as feeds:
            lab = Lab(bus, feeds, url, coder, stack)
            await lab.replica()
            await lab.replica()
            yield lab


@pytest.mark.timeout(180)
def test_the_fleet_does_what_the_model_says(nats_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "STABLE_SECONDS", 0.3)
    monkeypatch.setattr(watching, "_STARTING_SECONDS", 0.1)
    with asyncio.Runner() as runner:
        opened = a_lab(nats_url)
        lab = runner.run(opened.__aenter__())
        try:
            machine = type("InLab", (FleetMachine,), {"runner": runner, "lab": lab})
            run_state_machine_as_test(machine, settings=LIVES)
        finally:
            runner.run(opened.__aexit__(None, None, None))
