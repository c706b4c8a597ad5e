"""The first minutes of somebody who has never seen the console."""

from playwright.async_api import expect
from sqlalchemy import text
from tests.browser.axe import violations
from tests.browser.chat.talking import reply
from tests.browser.pages import Show
from tests.integration.workspaces.chat.talk import attach
from tests.integration.workspaces.lab import Lab
from tests.workspaces_world.agent import Agent, an_agent

ENTRY = """
update agent_connections set entry = true, model = 'offline', starters = array['What can you do?', 'Add 1 and 2']
where server_id = 'pallas-harper'
"""


async def test_the_only_workspace_opens_with_its_entry_agent_and_messages_to_try(
    show: Show, lab: Lab, harper: Agent
) -> None:
    async with an_agent("aristotle") as other:
        await attach(lab.service.parts.engine, other, team="Academy")
        async with lab.service.parts.engine.begin() as connection:
            await connection.execute(text(ENTRY))
        page = await show("/")
        await expect(page).to_have_url(f"{lab.base}/workspaces/ws")
        await expect(page.get_by_role("button", name="Agent: ")).to_contain_text("Kottos › Harper")
        await expect(page.get_by_role("link", name="Health")).to_be_hidden()
        await page.get_by_role("button", name="Connect a real one").click()
        await expect(page.get_by_role("dialog")).to_contain_text("fastagent.secrets.yaml")
        assert await violations(page) == []
        await page.get_by_role("button", name="Done").click()
        await page.get_by_role("button", name="Do not show this again").click()
        await expect(page.get_by_role("note")).to_have_count(0)
        await page.get_by_role("button", name="Add 1 and 2").click()
        work = await harper.next()
        assert work.message == "Add 1 and 2"
        await work.answer("3")
        await expect(reply(page)).to_contain_text("3")
