"""The `pallas` command as an operator runs it, against a running service between a Mnemosyne and a registry."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.integration.pallas_command import Pallas
from tests.integration.workspaces.control.world import World, a_world
from tests.integration.workspaces.lab import PASSWORD
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
def pallas(world: World, tmp_path: Path) -> Pallas:
    """The command."""
    return Pallas({"PALLAS_WORKSPACES_URL": world.lab.base, "PALLAS_ADMIN_PASSWORD": PASSWORD}, tmp_path)
