"""A team at the console, from its registration to its end: what a person does in a browser, and what comes of it."""

import json
import re
import subprocess
from collections.abc import Generator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.browser.pages import a_browser, opening
from tests.e2e.auth_stack import API, TEAMS, AuthStack, done, libraries_of
from tests.e2e.stack import PALLAS, wait_until
from tests.e2e.test_libraries import assert_refused
from tests.requirements import requirement

from workspaces.model import NO_TEAMS

pytestmark = pytest.mark.timeout(240)
expect.set_options(timeout=15_000)

AGENT = "Scholars › Reader"
SEARCH = '/sleep 0.5\n/tool library-search/search {"query": "wombat"}\n/sleep 0.5'
WATCH = """() => {
  window.lines = [];
  new MutationObserver(() => {
    const all = document.querySelectorAll(".status-line");
    const text = all[0]?.innerText.trim() ?? null;
    const spinners = document.querySelectorAll(".thinking .spinner").length;
    if (window.lines.at(-1)?.text !== text) window.lines.push({ text, elements: all.length, spinners });
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
"""Notes each text of the status line, with the number of such lines and of spinners. `text` null: there is none."""


@pytest.fixture
def often(auth_stack: AuthStack) -> Generator[AuthStack]:
    """The stack, where agents are checked each second."""
    before = done(auth_stack.console.get(f"{API}/settings"))
    done(auth_stack.console.put(f"{API}/settings", json={**before, "health_interval": 1}))
    yield auth_stack
    done(auth_stack.console.put(f"{API}/settings", json=before))


def link(stack: AuthStack) -> str:
    """A link that logs in once."""
    made = subprocess.run(
        [PALLAS, "console", "--data", stack.ready["data"]], capture_output=True, check=True, timeout=60
    )
    return made.stdout.decode().strip()


async def register(page: Page, stack: AuthStack) -> str:
    """Register the team by the address of its registry, and wait until Mnemosyne knows it. Returns its id."""
    await page.get_by_text("Platform").first.click()
    await page.get_by_role("link", name="Teams", exact=True).click()
    await page.get_by_role("button", name="Add team").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Registry URL").fill(f"{stack.ready['registry']}/teams/scholars")
    await dialog.get_by_label("Name").fill("Scholars")
    await dialog.get_by_role("button", name="Add team").click()
    await expect(page.get_by_role("heading", name="Scholars")).to_be_visible()
    await expect(page.get_by_text("In sync", exact=True)).to_be_visible()
    agent = page.get_by_role("region", name="1 agent").get_by_role("listitem")
    await expect(agent).to_contain_text("Reader")
    await expect(agent).to_contain_text("Searches the libraries of its workspaces")
    assert await agent.locator("img").evaluate("async icon => { await icon.decode(); return icon.naturalWidth }") > 0
    return page.url.rpartition("/")[2]


async def reveal(page: Page, stack: AuthStack, instance: str) -> tuple[str, str]:
    """Reveal the JWT, which is done once. Returns it, and the stanza for the team's secrets."""
    await page.get_by_role("button", name="Reveal once").click()
    await page.get_by_role("dialog").get_by_role("button", name="Reveal once").click()
    jwt = await page.get_by_label("JWT", exact=True).inner_text()
    stanza = await page.get_by_label("For fastagent.secrets.yaml of the team", exact=True).inner_text()
    again = stack.console.post(f"{API}/pallas/{instance}/reveal")
    assert (again.status_code, again.json()["code"]) == (HTTPStatus.CONFLICT, "already_revealed")
    await page.reload()
    await expect(page.get_by_text("was shown and cannot be shown again")).to_be_visible()
    assert await page.get_by_role("button", name="Reveal once").count() == 0
    assert jwt not in await page.content()
    assert "pallas_team_jwt_revealed" in (Path(stack.ready["log"]) / "workspaces-1.log").read_text("utf-8")
    return jwt, stanza


async def make_workspace(page: Page) -> str:
    """Make a workspace, whose picker is empty, and follow the link to its settings. Returns its id."""
    await page.get_by_role("link", name="Workspaces").click()
    await page.get_by_role("button", name="New workspace").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("Zoology")
    await page.get_by_role("dialog").get_by_role("button", name="Create").click()
    sentence = page.get_by_role("status").filter(has_text="No teams attached")
    await expect(sentence).to_have_text(NO_TEAMS)
    await expect(page.get_by_role("textbox", name="Message")).to_be_disabled()
    workspace = page.url.rpartition("/")[2]
    await sentence.get_by_role("link", name="workspace settings → Attached Teams").click()
    await expect(page.get_by_role("heading", name="Attached Teams")).to_be_visible()
    return workspace


async def choose(page: Page, check: bool) -> None:
    """Attach or detach the team on the settings of a workspace."""
    teams = page.get_by_role("region", name="Attached Teams")
    await expect(teams.get_by_role("checkbox", checked=True)).to_have_count(0 if check else 1)
    await teams.get_by_role("checkbox", name="Scholars").set_checked(check)
    await teams.get_by_role("button", name="Save").click()
    words = "Attached Scholars (1 agent)." if check else "Detached Scholars."
    await expect(teams.get_by_text(words)).to_be_visible()


def told(stack: AuthStack, instance: str) -> list[str] | None:
    """The workspaces that Mnemosyne has confirmed."""
    return done(stack.console.get(f"{API}/pallas/{instance}"))["pushed_workspaces"]


async def offered(page: Page) -> list[str]:
    """The agents that the picker offers."""
    await page.get_by_role("button", name=re.compile("^Agent")).click()
    names = await page.get_by_role("option").all_inner_texts()
    await page.keyboard.press("Escape")
    return [name.partition("\n")[0].strip() for name in names]


async def search(page: Page, replies: int) -> dict[str, Any]:
    """Let the agent search, which makes so many replies. Returns what it has found, the last line of its answer."""
    box = page.get_by_role("textbox", name="Message")
    await box.fill(SEARCH)
    await box.press("Enter")
    shown = page.get_by_role("article", name=AGENT)
    await expect(shown).to_have_count(replies)
    reply = shown.last
    await expect(reply).to_have_attribute("aria-busy", "false")
    [passage] = await reply.locator(".md p").all_inner_texts()
    return json.loads(passage)


def assert_shown_in_one_place(lines: list[dict[str, Any]]) -> None:
    """Fail unless each status line replaced the one before, below a spinner, and the answer cleared the last one."""
    texts = [line["text"] for line in lines if line["text"]]
    assert texts[0] == "reader step 1 (llm)"
    assert texts[-1] == "reader step 3 (llm)"
    assert lines[-1]["text"] is None
    assert all(line["elements"] == line["spinners"] == 1 for line in lines if line["text"]), lines


async def explain(page: Page) -> None:
    """Look at the waterfall of the last answer, and go back."""
    await page.get_by_role("link", name="Explain this answer").last.click()
    timeline = page.get_by_role("treegrid", name="Timeline")
    await expect(timeline.get_by_role("row", name="Model call: offline")).to_have_count(2)
    await expect(timeline.get_by_role("row", name="library-search/search")).to_have_count(1)
    await page.get_by_role("link", name="Conversation").click()


@requirement("P-4.3", "P-4.11", "P-5.18", "P-5.19", "P-5.20", "A-9.1.1", "A-9.1.2", "A-9.1.3", "A-9.2.1", "A-9.2.2")
@requirement("A-10.1.1", "A-10.2.1", "A-10.2.2", "A-10.2.3", "A-10.3.1", "A-14.3.3")
async def test_a_team_is_registered_searches_and_is_deleted(often: AuthStack, tmp_path: Path) -> None:
    async with a_browser() as browser, opening(browser) as open_page:
        # The page hears of the deletion before the answer to its own request, and asks once more for what is gone.
        page = await open_page(link(often), allowed=("401", "/api/v1/pallas/"))
        await expect(page.get_by_role("link", name="Workspaces")).to_be_visible()
        instance = await register(page, often)
        jwt, stanza = await reveal(page, often, instance)

        workspace = await make_workspace(page)
        often.add_library("burrow", workspace, "# Page\nA wombat in its burrow.\n", tmp_path)
        await choose(page, check=True)
        wait_until(lambda: told(often, instance) == [workspace], "Mnemosyne was told")
        await page.get_by_role("link", name="Zoology").first.click()
        assert await offered(page) == [AGENT]
        warning = page.get_by_role("status").filter(has_text="Reader is degraded.")
        await expect(warning).to_contain_text("HTTP 401")
        (often.teams / "scholars" / "fastagent.secrets.yaml").write_text(stanza)
        await expect(warning).to_have_count(0)

        await page.evaluate(WATCH)
        assert libraries_of(await search(page, replies=1)) == {"burrow"}
        assert_shown_in_one_place(await page.evaluate("lines"))
        await explain(page)
        assert libraries_of(await search(page, replies=2)) == {"burrow"}
        conversation = page.url.rpartition("/")[2]

        await page.get_by_role("link", name="Workspace settings").click()
        await choose(page, check=False)
        body = {"text": "hello", "agent_instance_id": instance, "agent_server_id": "pallas-reader"}
        wait_until(lambda: told(often, instance) == [], "Mnemosyne was told")
        refused = often.console.post(f"{API}/conversations/{conversation}/messages", json=body)
        assert (refused.status_code, refused.json()["code"]) == (HTTPStatus.FORBIDDEN, "agent_not_attached")
        assert await often.found_by_agent("wombat", team="scholars", agent="reader") == set()
        await page.get_by_role("link", name="Zoology").first.click()
        await expect(page.get_by_role("status").filter(has_text="No teams attached")).to_have_text(NO_TEAMS)
        await expect(page.get_by_role("button", name=re.compile("^Agent"))).to_have_count(0)

        await page.goto(f"{often.ready['workspaces']}/teams/{instance}")
        await page.get_by_role("button", name="More").click()
        await page.get_by_role("menuitem", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("textbox").fill("Scholars")
        await page.get_by_role("dialog").get_by_role("button", name="Delete team").click()
        wait_until(lambda: not done(often.daedalus.get(f"{TEAMS}{instance}/"))["active"], "the end of the team")
        await assert_refused(often, jwt, "Token has been deactivated.")
