"""The event stream of a tab: interrupted, hidden, ended by a draining server, and with the login that it needs."""

import asyncio
import re
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Page, Route, expect
from tests.browser.chat.talking import reply, say
from tests.browser.conftest import OpenPage
from tests.browser.pages import Show
from tests.integration.workspaces.lab import API, PASSWORD, Lab
from tests.workspaces_world.agent import Agent


async def hide(page: Page, hidden: bool) -> None:
    """Have the page believe that its tab is hidden, or seen."""
    await page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


async def test_an_interrupted_stream_is_made_anew_and_nothing_is_missed(show: Show, harper: Agent) -> None:
    page = await show(allowed=("ERR_INTERNET_DISCONNECTED", "ERR_NETWORK"))
    await say(page, "Wait for it")
    work = await harper.next()
    await expect(reply(page)).to_contain_text("Thinking")
    await page.context.set_offline(True)
    await expect(page.get_by_text("Reconnecting…").filter(visible=True)).to_be_visible()
    await work.answer("Here it is.")
    await page.context.set_offline(False)
    await expect(reply(page)).to_contain_text("Here it is.")
    await expect(page.get_by_text("Reconnecting…")).to_have_count(0)


async def test_a_request_that_is_answered_ends_the_wait_for_a_server_that_was_away(show: Show, harper: Agent) -> None:
    page = await show(allowed=("ERR_FAILED",))
    await say(page, "Hello")
    await (await harper.next()).answer("Good day.")
    await expect(reply(page)).to_contain_text("Good day.")
    await page.evaluate("Math.random = () => 1e6")  # the pause between two tries has no end
    streams = re.compile(r"/events\?")
    await page.route(streams, lambda route: route.abort())
    await hide(page, True)
    await hide(page, False)
    await expect(page.get_by_text("Reconnecting…").filter(visible=True)).to_be_visible()
    await page.unroute(streams)
    await say(page, "Are you back?")
    await (await harper.next(2)).answer("Yes.")
    await expect(reply(page)).to_contain_text("Yes.")
    await expect(page.get_by_text("Reconnecting…")).to_have_count(0)


async def test_a_title_given_while_the_stream_is_made_anew_is_shown(show: Show, harper: Agent) -> None:
    page, given = await show(), asyncio.Event()

    async def late(route: Route) -> None:
        await given.wait()
        await route.continue_()

    await page.route(re.compile(r"/events\?conversation="), late)
    await say(page, "Hello")
    await harper.next()
    given.set()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Hello")


async def test_a_hidden_tab_has_no_stream_and_catches_up_when_it_is_seen(show: Show, lab: Lab, harper: Agent) -> None:
    page = await show()
    await say(page, "Later")
    work = await harper.next()
    await expect(reply(page)).to_contain_text("Thinking")
    ended = asyncio.create_task(page.wait_for_event("requestfailed"))
    await asyncio.sleep(0)
    await hide(page, True)
    assert "/events" in (await ended).url
    await work.answer("It is later.")
    await expect(reply(page)).to_contain_text("Thinking")
    await hide(page, False)
    await expect(reply(page)).to_contain_text("It is later.")


async def test_a_hidden_tab_does_not_show_the_text_of_an_earlier_attempt(show: Show, lab: Lab, harper: Agent) -> None:
    page = await show()
    await say(page, "Tell me")
    await (await harper.next()).text("Owls see")
    await expect(reply(page)).to_contain_text("Owls see")
    await page.get_by_role("button", name="Cancel the answer").click()
    await expect(page.get_by_role("button", name="Copy the answer")).to_be_attached()
    await hide(page, True)
    conversation = urlsplit(page.url).path.rpartition("/")[2]
    last = (await lab.browser.get(f"{API}/conversations/{conversation}")).json()["messages"][-1]
    for decision in ("retry", "cancel"):
        body = {"confirmed": True} if decision == "retry" else {}
        assert (await lab.browser.post(f"{API}/messages/{last['id']}/{decision}", json=body)).is_success
    await hide(page, False)
    await expect(reply(page)).not_to_contain_text("Owls see")
    await expect(reply(page)).to_contain_text("Cancelled")


async def test_who_is_logged_out_comes_back_to_where_they_were(show: Show, lab: Lab) -> None:
    page = await show("/health")
    await expect(page.get_by_role("heading", name="Health")).to_be_visible()
    await page.evaluate(
        "new Promise(done => indexedDB.open('pallas').onsuccess = ({target}) => done(target.result.close()))"
    )
    await page.get_by_role("button", name="Log out").click()
    await expect(page).to_have_url(f"{lab.base}/login?next=%2Fhealth")
    assert await page.evaluate("indexedDB.databases()") == [], "images of drafts"
    await page.get_by_label("Password").fill("wrong")
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_label("Password").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Health")).to_be_visible()


@pytest.mark.parametrize(
    "elsewhere",
    ["/%09/evil.example", "//evil.example", "/%5Cevil.example", "/.//evil.example", "https://evil.example", "/login"],
)
async def test_a_login_leads_to_no_other_site(lab: Lab, open_page: OpenPage, elsewhere: str) -> None:
    page = await open_page(f"{lab.base}/login?next={elsewhere}", allowed=("401",))
    await page.get_by_label("Password").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{lab.base}/workspaces/ws")


async def test_a_login_holds_in_other_tabs_and_is_worth_nothing_to_another_port_of_the_host(
    show: Show, lab: Lab
) -> None:
    page = await show("/health")
    await page.context.add_cookies([{"name": "pallas_session", "value": "of-another-console", "url": lab.base}])
    other = await page.context.new_page()
    await other.goto(f"{lab.base}/health")
    await expect(other.get_by_role("heading", name="Health")).to_be_visible()
    kept = {each["name"]: each["value"] for each in await page.context.cookies() if "name" in each and "value" in each}
    async with httpx.AsyncClient(base_url=lab.base, cookies=kept, trust_env=False, verify=False) as thief:
        refused = [await thief.get(f"{API}{path}") for path in ("/session", "/workspaces", "/events")]
    assert [answer.status_code for answer in refused] == [401, 401, 401]
    await other.reload()
    await expect(other.get_by_role("heading", name="Health")).to_be_visible()


async def test_whose_session_ends_is_told_so_and_keeps_the_draft(show: Show) -> None:
    page = await show()
    await page.get_by_role("textbox", name="Message").fill("Half a thought")
    await page.context.clear_cookies()
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Your session has ended.")).to_be_visible()
    await page.get_by_label("Password").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("textbox", name="Message")).to_have_value("Half a thought")


async def test_the_link_logs_in_once_and_leaves_no_trace(lab: Lab, open_page: OpenPage) -> None:
    link = (await lab.command_line.post(f"{API}/login/links")).json()["url"]
    link = f"{lab.base}/login#{link.partition('#')[2]}"
    page = await open_page(link, allowed=("401",))
    await expect(page).to_have_url(f"{lab.base}/workspaces/ws")
    again = await open_page(link, allowed=("401",))
    await expect(again.get_by_role("alert")).to_be_visible()
    assert "#" not in again.url


async def test_a_workspace_is_made_named_anew_and_deleted(show: Show) -> None:
    page = await show("/workspaces", allowed=("404",))
    await page.get_by_role("button", name="New workspace").click()
    await page.get_by_role("dialog").get_by_role("textbox").fill("Árvíz 🦉")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No teams attached to this workspace.")).to_be_visible()
    await page.get_by_role("link", name="Workspaces", exact=True).click()
    await page.get_by_role("button", name="More for Árvíz 🦉").click()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await page.get_by_role("dialog").get_by_role("textbox").fill("Flood")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("navigation").get_by_role("link", name="Flood")).to_be_visible()
    await page.get_by_role("button", name="More for Flood").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete workspace").click()
    await expect(page.get_by_role("link", name="Flood")).to_have_count(0)
    await expect(page.get_by_role("link", name="Workspace", exact=True).first).to_be_visible()
    assert page.url.endswith("/workspaces")
    await page.goto(page.url + "/wsx")
    await expect(page.get_by_role("heading", name="There is no such workspace")).to_be_visible()


pytestmark = pytest.mark.timeout(60)
