"""Pages of teams, of a workspace's teams, of health and settings, in a browser."""

import pytest
from playwright.async_api import Page, expect
from tests.browser.axe import violations
from tests.browser.conftest import Scheme
from tests.browser.pages import Show
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API, PASSWORD
from tests.requirements import requirement


async def kept(page: Page) -> str:
    """Everything that the page keeps in the browser or shows."""
    storage = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    return storage + await page.content()


@requirement("P-4.2", "P-4.3")
async def test_a_bad_address_is_explained_at_its_field_and_a_good_one_becomes_an_instance(
    show: Show, world: World
) -> None:
    page = await show("/teams", allowed=("422",))
    await page.get_by_role("button", name="Add team").first.click()
    url = page.get_by_label("Registry URL")
    await url.fill("ftp://somewhere")
    await page.get_by_role("dialog").get_by_role("button", name="Add team").click()
    await expect(page.get_by_role("alert")).to_contain_text("http")
    assert await url.get_attribute("aria-invalid") == "true"
    assert await violations(page) == []
    await url.fill(f"{world.registry.base}/teams/kottos")
    await page.get_by_label("Name").fill("Kottos")
    await page.get_by_role("dialog").get_by_role("button", name="Add team").click()
    await expect(page.get_by_role("heading", name="Kottos")).to_be_visible()
    await expect(page.get_by_text("In sync", exact=True)).to_be_visible()
    await expect(page.get_by_text("Research Agent")).to_be_visible()


@requirement("A-9.1.2")
async def test_a_token_is_shown_once_and_is_gone_when_the_page_is_left(show: Show, world: World) -> None:
    instance = await world.provisioned()
    [jwt] = world.mnemosyne.jwts
    page = await show(f"/teams/{instance}")
    await page.get_by_role("button", name="Reveal once").click()
    assert jwt not in await kept(page)
    await page.get_by_role("dialog").get_by_role("button", name="Reveal once").click()
    await expect(page.get_by_label("JWT", exact=True)).to_have_text(jwt)
    await expect(page.get_by_label("For fastagent.secrets.yaml of the team", exact=True)).to_contain_text(
        f"Bearer {jwt}"
    )
    await expect(page.get_by_role("region", name="Team JWT")).to_be_focused()
    assert jwt not in await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    await page.get_by_role("link", name="Health").click()
    await expect(page.get_by_role("heading", name="Health")).to_be_visible()
    assert jwt not in await kept(page)
    await page.go_back()
    await expect(page.get_by_text("was shown and cannot be shown again")).to_be_visible()
    assert jwt not in await kept(page)
    assert await page.get_by_role("button", name="Reveal once").count() == 0


@requirement("A-9.4.1")
async def test_a_rotated_token_can_be_seen_again_after_a_warning(show: Show, world: World) -> None:
    instance = await world.provisioned()
    page = await show(f"/teams/{instance}")
    await page.get_by_role("button", name="Rotate team JWT").click()
    await expect(page.get_by_role("dialog")).to_contain_text("stops working at once")
    await page.get_by_role("dialog").get_by_role("button", name="Rotate team JWT").click()
    await page.get_by_role("button", name="Reveal once").click()
    await page.get_by_role("dialog").get_by_role("button", name="Reveal once").click()
    await expect(page.get_by_label("JWT", exact=True)).to_have_text(world.mnemosyne.jwts[-1])


async def test_what_mnemosyne_cannot_be_told_is_shown_with_its_reason_and_tried_again_on_demand(
    show: Show, world: World
) -> None:
    world.mnemosyne.mode = "page"
    instance = await world.register()
    await world.until(instance, lambda one: one["status"] == "failed")
    page = await show(f"/teams/{instance}")
    await expect(page.get_by_text("Not in sync", exact=True).first).to_be_visible()
    await expect(page.get_by_role("alert")).to_contain_text("500")
    world.mnemosyne.mode = "well"
    await page.get_by_role("button", name="Try now").click()
    await expect(page.get_by_text("In sync", exact=True)).to_be_visible()
    await page.get_by_role("link", name="Teams", exact=True).first.click()
    await expect(page.get_by_role("heading", name="Not in sync with the libraries")).to_have_count(0)
    world.mnemosyne.mode = "page"
    await page.get_by_role("button", name="Sync now").click()
    row = page.get_by_role("row", name="Kottos")
    await expect(row).to_contain_text("Mnemosyne failed with a web page (status 500)")
    world.mnemosyne.mode = "well"
    await expect(row).to_have_count(0)


async def test_drift_is_a_sentence_and_ends_with_a_reconciliation(show: Show, world: World) -> None:
    instance = await world.provisioned()
    await world.workspace(instance)
    await world.until_quiet()
    world.mnemosyne.teams[instance].workspace_ids.append("elsewhere")
    page = await show(f"/teams/{instance}")
    await page.get_by_role("button", name="Ask now").click()
    row = page.get_by_role("row", name="elsewhere")
    await expect(row).to_contain_text("no")
    await expect(row).to_contain_text("yes")
    await page.get_by_role("link", name="Teams", exact=True).first.click()
    await page.get_by_role("button", name="Sync now").click()
    await page.go_back()
    await expect(page.get_by_text("reads exactly the libraries")).to_be_visible()


async def test_an_instance_is_deleted_only_by_typing_its_name(show: Show, world: World) -> None:
    instance = await world.provisioned("Kottos")
    page = await show(f"/teams/{instance}")
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Delete").click()
    act = page.get_by_role("dialog").get_by_role("button", name="Delete team")
    await expect(act).to_be_disabled()
    await page.get_by_role("dialog").get_by_role("textbox").fill("Kottos")
    await act.click()
    await expect(page.get_by_text("No teams yet")).to_be_visible()
    await world.until_quiet()
    assert not world.mnemosyne.teams[instance].active


@requirement("A-9.2.1", "A-10.1.1")
async def test_teams_are_attached_and_detached_by_checkboxes(show: Show, world: World) -> None:
    first, second = await world.provisioned("Kottos"), await world.provisioned("Briareos")
    workspace = await world.workspace()
    page = await show(f"/workspaces/{workspace}/settings")
    await expect(page.get_by_role("checkbox")).to_have_count(2)
    assert not await page.get_by_role("checkbox", checked=True).count()
    await world.attach(workspace, first)
    await expect(page.get_by_role("checkbox", name="Kottos")).to_be_checked()
    await page.get_by_role("checkbox", name="Briareos").check()
    await page.get_by_role("checkbox", name="Kottos").uncheck()
    await expect(page.get_by_text("Will attach Briareos; detach Kottos.")).to_be_visible()
    save = page.get_by_role("button", name="Save")
    await save.press("Enter")
    await expect(page.get_by_text("Attached Briareos (2 agents). Detached Kottos.")).to_be_visible()
    await expect(save).to_be_focused()
    await expect(save).to_be_disabled()
    await world.until_quiet()
    assert world.mnemosyne.teams[second].workspace_ids == [workspace]
    assert world.mnemosyne.teams[first].workspace_ids == []


async def test_a_team_whose_registry_is_away_is_attached_with_a_warning(show: Show, world: World) -> None:
    instance = await world.provisioned("Kottos")
    workspace = await world.workspace()
    world.registry.mode = "status"
    page = await show(f"/workspaces/{workspace}/settings")
    await page.get_by_role("checkbox", name="Kottos").check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("listitem").filter(has_text="Kottos:")).to_be_visible()
    assert (await world.instance(instance))["workspace_ids"] == [workspace]


async def test_settings_are_checked_and_kept(show: Show, world: World) -> None:
    page = await show("/settings", allowed=("422",))
    interval = page.get_by_label("Health checks")
    await interval.fill("-1")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await interval.fill("30")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("The settings are saved.")).to_be_visible()
    assert (await world.http.get(f"{API}/settings")).json()["health_interval"] == 30


PAGES = "/teams /teams/{instance} /workspaces/{workspace}/settings /health /settings"
OVERFLOW = "(main => main.scrollWidth - main.clientWidth)(document.querySelector('main'))"

COVERED = """() => [...document.querySelectorAll("main header :is(h1, h2)")].flatMap(title => {
    const words = document.createRange();
    words.selectNodeContents(title);
    const a = words.getBoundingClientRect();
    return [...title.closest("header").querySelectorAll("button")].filter(button => {
        const b = button.getBoundingClientRect();
        return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    }).map(button => `${button.textContent} covers ${title.textContent}`);
})"""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
async def test_pages_have_no_barriers_and_fit_their_window(
    show: Show, world: World, scheme: Scheme, width: int
) -> None:
    instance = await world.provisioned()
    workspace = await world.workspace(instance)
    page = await show("/turns", scheme=scheme, width=width)
    for path in PAGES.format(instance=instance, workspace=workspace).split():
        await page.goto(f"{world.lab.base}{path}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        assert await violations(page) == [], path
        assert await page.evaluate(OVERFLOW) <= 0, path
        assert await page.evaluate(COVERED) == [], path


pytestmark = pytest.mark.timeout(60)


async def test_sessions_are_shown_and_ended(show: Show, world: World) -> None:
    edge = "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0 Safari/537.36 Edg/131.0"
    await world.http.post(f"{API}/login", json={"password": PASSWORD}, headers={"user-agent": edge})
    page = await show("/settings")
    rows = page.get_by_role("table", name="Sessions").get_by_role("row")
    await expect(rows.filter(has_text="This one")).to_contain_text("Chrome")
    await expect(rows.filter(has_text="Edge on Android")).to_have_count(1)
    await page.get_by_role("button", name="End all others").click()
    await page.get_by_role("dialog").get_by_role("button", name="End").click()
    await expect(rows).to_have_count(2)
    assert await violations(page) == []
    listed = (await world.http.get(f"{API}/sessions")).json()["sessions"]
    assert len(listed) == 1
