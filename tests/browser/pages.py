"""A Chromium, and pages that fail their test when the console reports an error."""

import os
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal, Protocol

from playwright.async_api import Browser, Page, async_playwright
from tests.browser.chromium import ARGUMENTS, chromium
from tests.integration.workspaces.lab import API, PASSWORD

type Scheme = Literal["light", "dark"]


class OpenPage(Protocol):
    """Opens a page in a browser session of its own, which ends with the test."""

    def __call__(
        self, url: str, *, scheme: Scheme = "light", width: int = 1280, height: int = 800, allowed: tuple[str, ...] = ()
    ) -> Awaitable[Page]:
        """Return the page. `allowed` are parts of error messages of the browser that the test expects."""
        ...


class Show(Protocol):
    """Opens a page of the console, logged in."""

    def __call__(
        self,
        path: str = "/workspaces/ws",
        *,
        scheme: Scheme = "light",
        width: int = 1280,
        allowed: tuple[str, ...] = (),
    ) -> Awaitable[Page]:
        """Return the page. `allowed` are parts of error messages of the browser that the test expects."""
        ...


def shows(open_page: OpenPage, base: str, *always: str) -> Show:
    """What opens pages of the service at `base`. `always` are parts of error messages that all tests expect."""

    async def show(
        path: str = "/workspaces/ws", *, scheme: Scheme = "light", width: int = 1280, allowed: tuple[str, ...] = ()
    ) -> Page:
        # 401 is the answer before the login.
        page = await open_page(f"{base}/login", scheme=scheme, width=width, allowed=("401", *always, *allowed))
        answer = await page.request.post(f"{base}{API}/login", data={"password": PASSWORD})
        assert answer.ok, await answer.text()
        await page.goto(f"{base}{path}")
        return page

    return show


@asynccontextmanager
async def a_browser(*arguments: str) -> AsyncGenerator[Browser]:
    """A headless Chromium, with further arguments."""
    program = chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program.path, args=[*ARGUMENTS, *arguments], env={**os.environ, **program.variables}
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def opening(browser: Browser) -> AsyncGenerator[OpenPage]:
    """Opens pages. What a page has reported as an error, such as a breach of the CSP, is raised in the end."""
    reported = list[str]()

    async with AsyncExitStack() as stack:

        async def open_one(
            url: str, *, scheme: Scheme = "light", width: int = 1280, height: int = 800, allowed: tuple[str, ...] = ()
        ) -> Page:
            context = await browser.new_context(
                color_scheme=scheme, viewport={"width": width, "height": height}, reduced_motion="reduce"
            )
            stack.push_async_callback(context.close)
            context.set_default_timeout(10_000)
            page = await context.new_page()

            def report(text: str) -> None:
                if not any(part in text for part in allowed):
                    reported.append(text)

            page.on("pageerror", lambda error: report(f"{error}"))
            page.on("console", lambda said: report(f"{said.text} {said.location}") if said.type == "error" else None)
            await page.goto(url)
            return page

        yield open_one
    assert reported == [], reported
