"""Asking again in a branch, and finding conversations."""

import re

import pytest
from playwright.async_api import expect
from tests.browser.axe import violations
from tests.browser.chat.talking import reply, say
from tests.browser.pages import Show
from tests.workspaces_world.agent import Agent


async def test_a_message_is_edited_and_answered_anew_and_all_versions_are_kept(show: Show, harper: Agent) -> None:
    page = await show(allowed=("409",))
    bubbles, versions = page.locator(".bubble"), page.get_by_role("group", name="Versions of this message")
    await say(page, "What is **one**?")
    await (await harper.next()).answer("First.")
    await expect(reply(page)).to_contain_text("First.")
    await say(page, "And two?")
    await (await harper.next(2)).answer("Second.")
    await expect(reply(page)).to_contain_text("Second.")
    await page.get_by_role("button", name="Edit and ask again").last.click()
    await page.get_by_role("textbox", name="Edited message").fill("And three?")
    await page.keyboard.press("Enter")
    work = await harper.next(3)
    assert (work.message, [one["content"] for one in work.arguments["history"]]) == (
        "And three?",
        ["What is **one**?", "First."],
    )
    await work.answer("Third.")
    await expect(reply(page)).to_contain_text("Third.")
    await expect(bubbles).to_have_text(["What is **one**?", "And three?"])
    await expect(versions).to_contain_text("2 / 2")
    assert await violations(page) == []
    await page.get_by_role("button", name="The version before").click()
    await expect(bubbles).to_have_text(["What is **one**?", "And two?"])
    await expect(versions).to_contain_text("1 / 2")
    await page.get_by_role("button", name="Another answer").first.click()
    await page.get_by_role("button", name="Ask anyway").click()
    again = await harper.next(4)
    assert (again.message, again.arguments.get("history")) == ("What is **one**?", None)
    await again.answer("Once more.")
    await expect(reply(page)).to_contain_text("Once more.")
    await expect(versions).to_contain_text("2 / 2")
    await expect(page.locator(".conversation-scroll li")).to_have_text(["What is one?"])


async def test_conversations_agents_and_pages_are_found_by_keyboard(show: Show, harper: Agent) -> None:
    page = await show(allowed=("ERR_FAILED",))
    await say(page, "About owls")
    await (await harper.next()).answer("They hunt at dusk, 100% of them.")
    await expect(reply(page)).to_contain_text("dusk")
    words = page.get_by_role("combobox", name="Search conversations, agents and pages")
    await page.keyboard.press("Control+k")
    await expect(words).to_be_focused()
    await page.keyboard.type("100%")
    options = page.get_by_role("option")
    await expect(options).to_have_text([re.compile("About owls.*hunt at dusk")])
    assert await violations(page) == []
    await page.route("**/search*", lambda route: route.abort())
    await words.fill("owls")
    await expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("Conversations could not be searched.")
    await expect(options).to_have_count(0)
    await words.fill("harper")
    await expect(options.first).to_contain_text("Agent")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="New conversation")).to_be_visible()
    await page.keyboard.press("Control+k")
    await expect(words).to_be_focused()
    await page.keyboard.type("health")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Health")).to_be_visible()


pytestmark = pytest.mark.timeout(60)
