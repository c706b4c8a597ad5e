"""`world` is the module's world without content; `own_world` is one of a test alone, which may stop its parts."""

from collections.abc import AsyncGenerator

import pytest
from tests.integration.workspaces.control.world import World, a_world
from tests.postgres import PostgresServer


@pytest.fixture(scope="module")
async def module_world(postgres: PostgresServer, model: str) -> AsyncGenerator[World]:
    """A running world, as the tests before have left it."""
    async with a_world(await postgres.new_database(like=model)) as world:
        yield world


@pytest.fixture
async def world(module_world: World, postgres: PostgresServer) -> World:
    """The module's world, emptied."""
    await module_world.empty(postgres)
    return module_world


@pytest.fixture
async def own_world(database: str) -> AsyncGenerator[World]:
    """A world of this test alone, with `database`."""
    async with a_world(database) as world:
        yield world
