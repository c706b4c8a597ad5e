"""Accessibility: axe-core in a page."""

from typing import Any

from playwright.async_api import Page
from tests.browser.chromium import PACKAGES


async def violations(page: Page) -> list[str]:
    """What axe-core finds in the page, one line for each rule with its first place. The CSP does not stop it."""
    PACKAGES.install()
    script = (PACKAGES.modules / "axe-core" / "axe.min.js").read_text("utf-8")
    found: dict[str, Any] = await page.evaluate(f"{script}; axe.run(document, {{resultTypes: ['violations']}})")
    return [f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]
