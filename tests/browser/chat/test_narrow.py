"""The chat in a narrow window, on paper, and where a part of the service does not answer."""

import re

import pytest
from playwright.async_api import Route, expect
from tests.browser.chat.talking import reply, say
from tests.browser.pages import Show
from tests.integration.workspaces.lab import Lab
from tests.workspaces_world.agent import Agent


async def test_drawers_take_the_focus_and_escape_gives_it_back(show: Show) -> None:
    page = await show(width=360)
    await expect(page.get_by_role("link", name="New conversation")).to_have_count(0)  # it is in the closed drawer
    for button, first in (("Navigation", "Pallas"), ("Conversations", "Workspace settings")):
        await page.get_by_role("button", name=button, exact=True).press("Enter")
        await expect(page.get_by_role("link", name=first, exact=True).last).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("button", name=button, exact=True)).to_be_focused()
    await page.get_by_role("button", name="Navigation").press("Enter")
    await page.get_by_role("link", name="Health").press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()


async def test_all_messages_are_printed_and_nothing_around_them(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "Tell me")
    await (await harper.next()).answer("A line.\n\n" * 200)
    await expect(reply(page)).to_contain_text("A line.")
    await page.emulate_media(media="print")
    assert await page.evaluate("document.documentElement.scrollHeight") > 200 * 24
    for gone in (page.get_by_role("navigation"), page.get_by_role("textbox", name="Message")):
        await expect(gone).to_be_hidden()


async def test_what_could_not_be_loaded_says_so_and_can_be_tried_again(show: Show, lab: Lab) -> None:
    page = await show("/health", allowed=("500",))
    broken = re.compile(r"/(workspaces|agents)$")

    async def fail(route: Route) -> None:
        await route.fulfill(status=500, json={"error": "the database is away", "code": "internal"})

    for path, shown in (("/", page.locator(".workspace-card")), ("/workspaces/ws", page.locator(".combobox-button"))):
        await page.route(broken, fail)
        await page.goto(f"{lab.base}{path}")
        await expect(page.get_by_role("alert")).to_contain_text("The database is away")
        await page.unroute(broken, fail)
        await page.get_by_role("button", name="Try again").click()
        await expect(shown).to_be_visible()


pytestmark = pytest.mark.timeout(60)
