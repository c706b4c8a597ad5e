"""A Chromium for each module, and pages that fail their test when the console reports an error."""

from collections.abc import AsyncGenerator, Generator

import pytest
from playwright.async_api import Browser
from tests.browser.pages import OpenPage as OpenPage
from tests.browser.pages import Scheme as Scheme
from tests.browser.pages import a_browser, opening
from tests.postgres import PostgresServer
from tests.workspaces_world.agent import Agent, an_agent


@pytest.fixture(scope="module")
async def browser() -> AsyncGenerator[Browser]:
    """A headless Chromium."""
    async with a_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Generator[PostgresServer]:
    """The Postgres of the module's tests."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
async def harper() -> AsyncGenerator[Agent]:
    """An agent that keeps idempotency keys and streams its text."""
    async with an_agent("harper") as agent:
        yield agent


@pytest.fixture
async def open_page(browser: Browser) -> AsyncGenerator[OpenPage]:
    """Opens pages. What a page reports as an error, such as a breach of the CSP, fails the test."""
    async with opening(browser) as open_page:
        yield open_page
