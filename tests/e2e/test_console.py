"""The console from the first login to the end of a team, in a browser: what a person does, and what it does."""

import re

import pytest
from playwright.async_api import Page, expect
from tests.e2e.auth_stack import AuthStack

pytestmark = pytest.mark.timeout(240)

NAME, AGENT = "Scholars", "Scholars › Reader"
SEARCH = '/sleep 0.5\n/tool library-search/search {"query": "wombat"}'
WATCH = """() => {
  window.lines = [];
  const look = () => {
    const all = document.querySelectorAll(".status-line");
    const text = all[0]?.innerText.trim() ?? null;
    const spinner = document.querySelectorAll(".thinking .spinner").length;
    if (window.lines.at(-1)?.text !== text) window.lines.push({ text, elements: all.length, spinner });
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
"""Notes each text of the status line, with the number of such lines and of spinners. `text` null: there is none."""


async def register(page: Page, stack: AuthStack) -> str:
    """Register the team by the address of its registry, and wait until Mnemosyne knows it. Returns its id."""
    await page.get_by_role("link", name="Pallas instances").click()
    await page.get_by_role("button", name="Add instance").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Registry URL").fill(f"{stack.ready['registry']}/teams/scholars")
    await dialog.get_by_label("Name").fill(NAME)
    await dialog.get_by_role("button", name="Add instance").click()
    await expect(page.get_by_role("heading", name=NAME)).to_be_visible()
    await expect(page.get_by_text("Provisioned", exact=True)).to_be_visible()
    agents = page.get_by_role("region", name="1 agent")
    await expect(agents).to_contain_text("Reader")
    await expect(agents).to_contain_text("Searches the libraries of its workspaces")
    icon = agents.get_by_role("img").first
    await expect(agents.locator("img")).to_have_attribute("src", re.compile("^/api/v1/icons/"))
    assert icon
    return page.url.rpartition("/")[2]
