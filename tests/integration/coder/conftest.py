"""A stand-in for Coder in the test's process, and a client of it."""

from collections.abc import AsyncGenerator

import httpx
import pytest

from pallas_demo.coder import CoderStandIn, StandInSettings, TerminalSettings

SETTINGS = StandInSettings(build_seconds=0.02, allow_faults=True, terminal=TerminalSettings(stable_after=0.25))


@pytest.fixture
async def coder(request: pytest.FixtureRequest) -> AsyncGenerator[CoderStandIn]:
    """A stand-in with these settings, or with those that are the test's parameter."""
    async with CoderStandIn(getattr(request, "param", SETTINGS)) as stand_in:
        yield stand_in


@pytest.fixture
async def client(coder: CoderStandIn) -> AsyncGenerator[httpx.AsyncClient]:
    """A client that is signed in."""
    headers = {"Coder-Session-Token": coder.token}
    async with httpx.AsyncClient(base_url=coder.url, headers=headers, trust_env=False, timeout=20) as one:
        yield one
