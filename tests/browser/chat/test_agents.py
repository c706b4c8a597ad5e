"""Which agent gets a message: the picker, the health of agents, a narrow window, and lists that cannot be loaded."""

import re

import pytest
from playwright.async_api import Route, expect
from sqlalchemy import text
from tests.browser.axe import violations
from tests.browser.chat.talking import reply, say
from tests.browser.conftest import Scheme
from tests.browser.pages import Show
from tests.integration.workspaces.chat.talk import attach
from tests.integration.workspaces.lab import Lab
from tests.requirements import requirement
from tests.workspaces_world.agent import Agent, an_agent

from workspaces.live.hub import ALL
from workspaces.model import NO_TEAMS


@requirement("A-10.2.3")
async def test_without_teams_the_sentence_of_the_contract_leads_to_the_settings(show: Show, lab: Lab) -> None:
    async with lab.service.parts.engine.begin() as connection:
        await connection.execute(text("delete from workspace_pallas_assignments"))
    page = await show()
    sentence = page.get_by_text("No teams attached to this workspace.")
    await expect(sentence).to_have_text(NO_TEAMS)
    await expect(page.get_by_role("textbox", name="Message")).to_be_disabled()
    await sentence.get_by_role("link", name="workspace settings → Attached Teams").click()
    await expect(page).to_have_url(f"{lab.base}/workspaces/ws/settings#attached-teams")
    await expect(page.locator("#attached-teams")).to_be_in_viewport()


@requirement("A-10.2.2", "A-10.3.2")
async def test_each_message_may_go_to_another_agent_by_keyboard_alone(show: Show, lab: Lab, harper: Agent) -> None:
    async with an_agent("aristotle") as other:
        await attach(lab.service.parts.engine, other, team="Gyges", description="Asks Kottos")
        page = await show()
        picker = page.get_by_role("button", name="Agent: ")
        await expect(picker).to_contain_text("›")
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        is_harper = "Harper" in await picker.inner_text()
        await say(page, "One")
        await (await (harper if is_harper else other).next()).answer("First.")
        await expect(reply(page)).to_contain_text("First.")
        wanted, agent = ("Gyges › Aristotle", other) if is_harper else ("Kottos › Harper", harper)
        await picker.press("ArrowDown")
        options = page.get_by_role("option")
        await expect(options).to_have_text([re.compile("^Gyges › Aristotle"), re.compile("^Kottos › Harper")])
        await page.keyboard.type(wanted.partition(" ")[0].lower())
        await expect(options.first).to_have_text(re.compile(f"^{wanted}"))  # a name counts more than a description
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await say(page, "Two")
        await (await agent.next()).answer("Second.")
        await expect(page.get_by_role("article", name=wanted)).to_contain_text("Second.")


async def test_an_icon_that_is_missing_is_asked_for_once(show: Show, lab: Lab) -> None:
    async with an_agent("aristotle") as other:
        await attach(lab.service.parts.engine, other, team="Gyges", icon="http://127.0.0.1:1/gone.png")
        page = await show("/settings", allowed=("404",))
        asked = list[str]()
        page.on("request", lambda request: asked.append(request.url) if "/icons/" in request.url else None)
        await page.get_by_role("link", name="Workspaces").click()
        await page.locator(".workspace-card a").click()
        for number in (1, 2):
            await page.get_by_role("button", name="Agent: ").click()
            await page.get_by_role("option", name="Gyges › Aristotle").click()
            await say(page, "Who?")
            await (await other.next(number)).answer("I am.")
            await expect(reply(page)).to_contain_text("I am.")
            await expect(page.locator(".agent-icon img")).to_have_count(0)
            await page.get_by_role("link", name="New conversation").click()
        assert len(asked) == 1


@requirement("P-4.10", "P-4.11")
async def test_health_warns_and_bars_and_flips_by_itself(show: Show, harper: Agent) -> None:
    page = await show()
    box = page.get_by_role("textbox", name="Message")
    await box.fill("A draft")
    harper.health = {"status": "degraded", "message": "Answers take 12 s."}
    await expect(page.get_by_role("status").filter(has_text="Answers take 12 s.")).to_be_visible()
    await expect(box).to_be_enabled()
    harper.health = {"status": "error", "message": "Argos is unreachable."}
    await expect(page.get_by_role("alert")).to_contain_text("Argos is unreachable.")
    await expect(box).to_be_disabled()
    assert "Argos is unreachable." in (await box.get_attribute("placeholder") or "")
    assert await violations(page) == []
    harper.health = {"status": "ok"}
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(box).to_be_enabled()
    await expect(box).to_have_value("A draft")


async def test_a_team_that_is_attached_appears_at_once(show: Show, lab: Lab) -> None:
    page = await show()
    async with an_agent("aristotle") as other:
        await attach(lab.service.parts.engine, other, team="Gyges")
        await lab.service.parts.hub.tell(ALL, "agents", {})
        await page.get_by_role("button", name="Agent: ").click()
        await expect(page.get_by_role("option", name="Gyges › Aristotle")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1280)])
async def test_the_chat_has_no_barriers_and_fits_its_window(
    show: Show, harper: Agent, scheme: Scheme, width: int
) -> None:
    page = await show(scheme=scheme, width=width)
    await say(page, "Everything, please")
    work = await harper.next()
    await work.progress("Writing", 1)
    await expect(page.locator(".status-text")).to_be_visible()
    assert await violations(page) == []
    long = "x" * 200
    table, code = f"| a | b |\n|--:|---|\n| 1 | {long} |", f"```js\n{long}\n```"
    await work.answer(f"# T\n\n[a link](https://a.example) in text, `{long}`\n\n{table}\n\n{code}")
    await expect(reply(page).get_by_role("table")).to_be_visible()
    assert await violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert await page.evaluate("(t => t.scrollWidth - t.clientWidth)(document.querySelector('.transcript'))") <= 0


async def test_drawers_take_the_focus_and_escape_gives_it_back(show: Show) -> None:
    page = await show(width=768)
    await expect(page.get_by_role("link", name="New conversation")).to_be_visible()  # there is room for the list
    for width, button, first in ((768, "Navigation", "Pallas"), (360, "Conversations", "Workspace settings")):
        await page.set_viewport_size({"width": width, "height": 800})
        await page.get_by_role("button", name=button, exact=True).press("Enter")
        await expect(page.get_by_role("link", name=first, exact=True).last).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("button", name=button, exact=True)).to_be_focused()
    await expect(page.get_by_role("link", name="New conversation")).to_have_count(0)  # it is in the closed drawer
    await page.get_by_role("button", name="Conversations", exact=True).press("Enter")
    await page.get_by_role("region", name="Conversations").get_by_text("Platform").press("Enter")
    await page.get_by_role("link", name="Health").press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()


async def test_what_could_not_be_loaded_says_so_and_can_be_tried_again(show: Show, lab: Lab) -> None:
    page = await show("/health", allowed=("500",))
    broken = re.compile(r"/api/.*/(workspaces|agents)$")

    async def fail(route: Route) -> None:
        await route.fulfill(status=500, json={"error": "the database is away", "code": "internal"})

    for path, place in (("/workspaces", ".workspace-card"), ("/workspaces/ws", ".combobox-button")):
        await page.route(broken, fail)
        await page.goto(f"{lab.base}{path}")
        await expect(page.get_by_role("alert")).to_contain_text("The database is away")
        await page.unroute(broken, fail)
        await page.get_by_role("button", name="Try again").click()
        await expect(page.locator(place)).to_be_visible()


pytestmark = pytest.mark.timeout(60)
