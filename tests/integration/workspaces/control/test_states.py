"""Whatever happened, in any order: when it is quiet, Mnemosyne knows what holds here, and every status is true."""

import asyncio
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from tests.integration.workspaces.control.machine import Stage, Teams
from tests.integration.workspaces.control.world import a_world
from tests.lives import live
from tests.postgres import PostgresServer
from tests.requirements import requirement

LIVES = 100 if "PALLAS_TEST_SEED" in os.environ else 12


@contextmanager
def a_stage(database: str) -> Generator[Stage]:
    """A world in a thread of its own."""
    begun, stop = threading.Event(), asyncio.Event()
    stages = list[Stage]()

    async def live() -> None:
        async with a_world(database) as world:
            stages.append(Stage(asyncio.get_running_loop(), world))
            begun.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        assert begun.wait(60)
        yield stages[0]
    finally:
        stages[0].stop(stop)
        thread.join(60)


@pytest.mark.timeout(600)
@requirement("A-8.0.1", "A-8.6.1", "A-8.6.2", "A-8.4.1", "A-8.5.1")
def test_when_it_is_quiet_mnemosyne_knows_what_holds(postgres: PostgresServer, model: str) -> None:
    database = asyncio.run(postgres.new_database(like=model))
    with a_stage(database) as stage:
        live(Teams, stage, lives=LIVES, steps=20)
