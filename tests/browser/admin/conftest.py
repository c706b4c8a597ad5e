"""The service between a Mnemosyne and a registry that are not ours, on a broker, and pages of it that are logged in."""

from collections.abc import AsyncGenerator, Awaitable, Generator
from typing import Protocol

import pytest
from playwright.async_api import Page, expect
from tests.browser.conftest import OpenPage, Scheme
from tests.integration.workspaces.control.world import World, a_world
from tests.integration.workspaces.lab import API, PASSWORD, empty
from tests.postgres import PostgresServer

expect.set_options(timeout=15_000)


class Show(Protocol):
    """Opens a page of the console, logged in."""

    def __call__(
        self, path: str, *, scheme: Scheme = "light", width: int = 1280, allowed: tuple[str, ...] = ()
    ) -> Awaitable[Page]:
        """Return the page. `allowed` are parts of error messages of the browser that the test expects."""
        ...


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Generator[PostgresServer]:
    """The Postgres of the module's tests."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="module")
async def module_world(postgres: PostgresServer, nats_url: str) -> AsyncGenerator[World]:
    """A running world, as the tests before have left it."""
    async with a_world(await postgres.new_database(), nats_url=nats_url) as world:
        yield world


@pytest.fixture
async def world(module_world: World, postgres: PostgresServer) -> World:
    """The module's world, emptied."""
    await module_world.until_quiet()
    await empty(postgres, module_world.lab.settings["postgres_url"])
    module_world.mnemosyne.teams.clear()
    module_world.mnemosyne.jwts.clear()
    module_world.mnemosyne.mode = module_world.registry.mode = "well"
    return module_world


@pytest.fixture
def show(world: World, open_page: OpenPage) -> Show:
    """Opens pages of `world`."""
    base = world.lab.base
    always = ("401", "404")  # before the login; the icons of a registry that has none

    async def show_one(
        path: str, *, scheme: Scheme = "light", width: int = 1280, allowed: tuple[str, ...] = ()
    ) -> Page:
        page = await open_page(f"{base}/login", scheme=scheme, width=width, allowed=(*always, *allowed))
        answer = await page.request.post(f"{base}{API}/login", data={"password": PASSWORD})
        assert answer.ok, await answer.text()
        await page.goto(f"{base}{path}")
        return page

    return show_one
