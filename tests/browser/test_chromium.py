"""The Chromium that other tests use, and the checks of its pages."""

import pytest
from tests.browser.axe import violations
from tests.browser.conftest import OpenPage

PAGE = "data:text/html;charset=utf-8,<!doctype html><html lang=en><title>t</title><main><h1>Hello</h1></main>"


async def test_a_page_is_shown_in_both_themes(open_page: OpenPage) -> None:
    for scheme in ("light", "dark"):
        page = await open_page(PAGE, scheme=scheme)
        assert await page.locator("h1").inner_text() == "Hello"
        assert await page.evaluate(f"matchMedia('(prefers-color-scheme: {scheme})').matches")


async def test_what_is_not_accessible_is_found(open_page: OpenPage) -> None:
    assert await violations(await open_page(PAGE)) == []
    found = await violations(await open_page(PAGE + "<button></button>"))
    assert [line.split(":")[0] for line in found] == ["button-name"]


async def test_an_error_of_a_page_is_noticed(open_page: OpenPage) -> None:
    page = await open_page(PAGE, allowed=("expected",))
    async with page.expect_event("pageerror"):
        await page.evaluate("setTimeout(() => { throw new Error('expected') })")


pytestmark = pytest.mark.timeout(60)
