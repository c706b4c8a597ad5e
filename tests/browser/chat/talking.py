"""What a person does in the chat, and what they see."""

from playwright.async_api import Locator, Page, expect


async def say(page: Page, text: str) -> None:
    """Send a message with the keyboard."""
    box = page.get_by_role("textbox", name="Message")
    await expect(box).to_be_enabled()
    await box.fill(text)
    await box.press("Enter")


def reply(page: Page) -> Locator:
    """The last reply."""
    return page.locator("article.reply").last


def status(page: Page) -> Locator:
    """The status line of a running reply."""
    return page.locator(".status-line")
