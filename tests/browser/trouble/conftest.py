"""The service with a scripted agent, and pages of it that are logged in."""

from collections.abc import AsyncGenerator, Awaitable, Generator
from typing import Protocol

import pytest
from playwright.async_api import Page, expect
from tests.browser.pages import OpenPage, Scheme
from tests.integration.workspaces.chat.talk import attach
from tests.integration.workspaces.lab import API, CONTENT, PASSWORD, Lab, a_workspaces
from tests.postgres import PostgresServer
from tests.workspaces_world.agent import Agent, an_agent

expect.set_options(timeout=15_000)


class Show(Protocol):
    """Opens a page of the console, logged in."""

    def __call__(
        self, path: str = "/workspaces/ws", *, base: str | None = None, scheme: Scheme = "light", width: int = 1280,
        allowed: tuple[str, ...] = (),
    ) -> Awaitable[Page]:  # fmt: skip
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
    async with a_workspaces(postgres_url=await postgres.new_database()) as lab:
        yield lab


@pytest.fixture
async def harper() -> AsyncGenerator[Agent]:
    """An agent that keeps idempotency keys and streams its text."""
    async with an_agent("harper") as agent:
        yield agent


@pytest.fixture
async def lab(module_lab: Lab, postgres: PostgresServer, harper: Agent) -> Lab:
    """The module's service with the workspace `ws`, to which the team Kottos with `harper` is attached."""
    await postgres.empty(module_lab.settings["postgres_url"], *CONTENT)
    await attach(module_lab.service.parts.engine, harper, vision=True)
    return module_lab


@pytest.fixture
def show(request: pytest.FixtureRequest, open_page: OpenPage) -> Show:
    """Opens pages of `lab`, or of another service at `base`."""

    async def show_one(
        path: str = "/workspaces/ws", *, base: str | None = None, scheme: Scheme = "light", width: int = 1280,
        allowed: tuple[str, ...] = (),
    ) -> Page:  # fmt: skip
        base = base or request.getfixturevalue("lab").base
        page = await open_page(f"{base}/login", scheme=scheme, width=width, allowed=("401", *allowed))
        answer = await page.request.post(f"{base}{API}/login", data={"password": PASSWORD})
        assert answer.ok, await answer.text()
        await page.goto(f"{base}{path}")
        return page

    return show_one
