"""The service with a scripted agent, and pages of it that are logged in."""

from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import expect
from tests.browser.pages import OpenPage, Show, shows
from tests.integration.workspaces.chat.talk import attach
from tests.integration.workspaces.lab import Lab, a_workspaces, empty
from tests.postgres import PostgresServer
from tests.workspaces_world.agent import Agent

expect.set_options(timeout=15_000)


@pytest.fixture(scope="module")
async def module_lab(postgres: PostgresServer) -> AsyncGenerator[Lab]:
    """A running service, as the tests before have left it."""
    async with a_workspaces(postgres_url=await postgres.new_database()) as lab:
        yield lab


@pytest.fixture
async def lab(module_lab: Lab, postgres: PostgresServer, harper: Agent) -> Lab:
    """The module's service with the workspace `ws`, to which the team Kottos with `harper` is attached."""
    await empty(postgres, module_lab.settings["postgres_url"])
    await attach(module_lab.service.parts.engine, harper, vision=True)
    return module_lab


@pytest.fixture
def show(lab: Lab, open_page: OpenPage) -> Show:
    """Opens pages of `lab`."""
    return shows(open_page, lab.base)
