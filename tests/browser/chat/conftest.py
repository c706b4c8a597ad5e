"""The service with scripted agents whose health is checked all the time, and pages of it that are logged in."""

from collections.abc import AsyncGenerator, Awaitable, Generator
from typing import Protocol

import pytest
from playwright.async_api import Page, expect
from tests.browser.conftest import OpenPage, Scheme
from tests.integration.workspaces.chat.talk import attach
from tests.integration.workspaces.lab import API, PASSWORD, Lab, a_workspaces, empty
from tests.postgres import PostgresServer
from tests.workspaces_world.agent import Agent, an_agent

from workspaces.live.hub import ALL

expect.set_options(timeout=15_000)
WORKSPACE = "/workspaces/ws"


class Show(Protocol):
    """Opens a page of the console, logged in."""

    def __call__(
        self, path: str = WORKSPACE, *, scheme: Scheme = "light", width: int = 1280, allowed: tuple[str, ...] = ()
    ) -> Awaitable[Page]:
        """Return the page. `allowed` are parts of error messages of the browser that the test expects."""
        ...


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Generator[PostgresServer]:
    """The Postgres of the module's tests."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="module")
async def module_lab(postgres: PostgresServer) -> AsyncGenerator[Lab]:
    """A running service, as the tests before have left it."""
    async with a_workspaces(postgres_url=await postgres.new_database(), health_interval="1") as lab:
        yield lab


@pytest.fixture
async def harper() -> AsyncGenerator[Agent]:
    """An agent that keeps idempotency keys and streams its text."""
    async with an_agent("harper") as agent:
        yield agent


@pytest.fixture
async def lab(module_lab: Lab, postgres: PostgresServer, harper: Agent) -> Lab:
    """The module's service with the workspace `ws`, to which the team Kottos with `harper` is attached."""
    await empty(postgres, module_lab.settings["postgres_url"])
    await attach(module_lab.service.parts.engine, harper, vision=True)
    await module_lab.service.parts.hub.tell(ALL, "agents", {})
    return module_lab


@pytest.fixture
def show(lab: Lab, open_page: OpenPage) -> Show:
    """Opens pages of `lab`."""

    async def show_one(
        path: str = WORKSPACE, *, scheme: Scheme = "light", width: int = 1280, allowed: tuple[str, ...] = ()
    ) -> Page:
        page = await open_page(f"{lab.base}/login", scheme=scheme, width=width, allowed=("401", *allowed))
        answer = await page.request.post(f"{lab.base}{API}/login", data={"password": PASSWORD})
        assert answer.ok, await answer.text()
        await page.goto(f"{lab.base}{path}")
        return page

    return show_one
