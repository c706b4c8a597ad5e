"""The service between a Mnemosyne and a registry that are not ours, on a broker, and pages of it that are logged in."""

from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import expect
from tests.browser.pages import OpenPage, Show, shows
from tests.integration.real_parts import OWNED
from tests.integration.workspaces.control.world import World, a_world
from tests.postgres import PostgresServer

from pallas_bus.access import Access
from pallas_bus.connection import connect
from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY

expect.set_options(timeout=15_000)


@pytest.fixture(scope="module")
async def module_world(postgres: PostgresServer, nats_url: str) -> AsyncGenerator[World]:
    """A running world, as the tests before have left it. Its broker has the streams of turns, which are empty."""
    async with connect(Access(nats_url), GATEWAY, instance="streams") as gateway:
        await declare(gateway, *OWNED)
    async with a_world(await postgres.new_database(), nats_url=nats_url) as world:
        yield world


@pytest.fixture
async def world(module_world: World, postgres: PostgresServer) -> World:
    """The module's world, emptied."""
    await module_world.empty(postgres)
    return module_world


@pytest.fixture
def show(world: World, open_page: OpenPage) -> Show:
    """Opens pages of `world`."""
    return shows(open_page, world.lab.base, "404")  # the icons of a registry that has none
