"""Pages of turns in a browser: real turns of a real worker."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect
from tests.browser.axe import violations
from tests.browser.pages import Show
from tests.conftest import Connecting
from tests.integration.real_parts import OWNED
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.turns_lab import Stage
from tests.waiting import soon

from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY
from workspaces.turns import log

INSIDE = '/tool plain {"message": "/say inside"}\n/say **outside**'


@pytest.fixture
async def stage(world: World, bus: Connecting, nats_url: str, team: str, tmp_path: Path) -> AsyncGenerator[Stage]:
    """A worker, and turns for it."""
    gateway = await bus(GATEWAY)
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack:
        stage = Stage(gateway, nats_url, team, tmp_path, stack, world.http)
        await stage.worker()
        yield stage


async def focused(page: Page) -> str:
    """The text of the focused row."""
    return await page.evaluate("document.activeElement.querySelector('.wf-what')?.textContent ?? ''")


async def test_a_turn_is_a_waterfall_that_the_keyboard_walks(show: Show, stage: Stage) -> None:
    request = await stage.turn("chief", message=INSIDE)
    page = await show(f"/turns/{request.turn_id}")
    grid = page.get_by_role("treegrid", name="Timeline")
    await expect(grid.get_by_role("row", name="Model call: offline")).to_have_count(3)
    await expect(page.get_by_role("group", name="Summary")).to_contain_text("in 3 model calls")
    await expect(page.get_by_text("outside", exact=True).last).to_have_css("font-weight", "700")
    rows = await grid.get_by_role("row").count()
    await grid.get_by_role("row").nth(1).focus()
    await page.keyboard.press("ArrowDown")
    assert (await focused(page)).startswith("attempt 1")
    await page.keyboard.press("ArrowLeft")
    await expect(grid.get_by_role("row")).to_have_count(4)
    await page.keyboard.press("ArrowRight")
    await expect(grid.get_by_role("row")).to_have_count(rows)
    await page.keyboard.press("End")
    assert await focused(page) == "completed"
    await page.keyboard.press("+")
    await page.get_by_role("button", name="Whole turn").click()
    assert await violations(page) == []
    await page.set_viewport_size({"width": 360, "height": 740})
    await expect(grid.get_by_role("row", name="completed")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


async def test_the_list_follows_turns_and_its_filters_are_in_the_address(show: Show, stage: Stage) -> None:
    first = await stage.turn(message="/say one")
    page = await show("/turns")
    await expect(page.get_by_role("row", name=f"{first.team}/plain")).to_have_count(1)
    await stage.turn(message="/say two")
    await expect(page.get_by_role("row", name=f"{first.team}/plain")).to_have_count(2)
    await page.get_by_role("button", name="Pause").click()
    await stage.turn("broken", message="hello")
    await expect(page.get_by_role("button", name="Resume, 1 changed")).to_be_visible()
    await page.get_by_role("button", name="Resume, 1 changed").click()
    await expect(page.get_by_role("row", name=f"{first.team}/broken")).to_have_count(1)
    await page.get_by_label("State").select_option("failed")
    await expect(page.get_by_role("row", name=f"{first.team}/plain")).to_have_count(0)
    assert page.url.endswith("/turns?state=failed")
    await page.reload()
    await page.get_by_role("link", name=f"{first.team}/broken").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.get_by_role("row", name="Outcome: failed")).to_be_visible()


async def test_the_worst_of_the_day_are_on_one_page(show: Show, stage: Stage) -> None:
    slow = await stage.turn(message="/sleep 1.1\n/say late")
    failed = await stage.turn("broken", message="hello")
    page = await show("/turns/day")
    await expect(page.get_by_role("table", name="Slowest").get_by_role("row", name=f"{slow.team}/plain")).to_have_count(
        1
    )
    await expect(page.get_by_role("table", name="Failing").get_by_role("row", name=failed.team)).to_have_count(1)
    assert await violations(page) == []
    await page.get_by_role("table", name="Failing").get_by_role("link", name=f"{failed.team}/broken").click()
    await expect(page.get_by_role("row", name=f"{failed.team}/broken")).to_have_count(1)
    await page.goto(page.url.partition("?")[0] + "?least_seconds=1")
    await expect(page.get_by_role("row", name=f"{slow.team}/plain")).to_have_count(1)
    box = page.get_by_role("searchbox", name="Caller, or a turn's id")
    await box.fill(slow.turn_id)
    await box.press("Enter")
    await expect(page.get_by_role("treegrid", name="Timeline")).to_be_visible()


async def test_turns_while_the_list_was_not_connected_are_in_it_afterwards(show: Show, stage: Stage) -> None:
    page, lost = await show("/settings"), asyncio.Event()

    async def lose(route: Route) -> None:
        await route.fulfill(body="", content_type="text/event-stream")
        lost.set()

    await page.route("**/turns/events*", lose)
    await page.get_by_role("link", name="Turns").click()
    await soon(lost.wait())
    await expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    request = await stage.turn(message="/say one")
    await page.unroute("**/turns/events*", lose)
    await expect(page.get_by_role("row", name=f"{request.team}/plain")).to_have_count(1)


async def test_a_page_without_turns_offers_to_search_further(
    show: Show, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.turn(message="/say one")
    with monkeypatch.context() as hurried:
        hurried.setattr(log, "MOST_SECONDS", -1.0)
        page = await show(f"/turns?team={stage.team}&state=input_required")
        further = page.get_by_role("button", name="Search further")
        await expect(further).to_be_visible()
        await expect(page.get_by_text("The log was searched back to")).to_be_visible()
    await further.click()
    await expect(page.get_by_role("heading", name="No turn matches", exact=True)).to_be_visible()
    await expect(further).to_have_count(0)


async def test_a_waterfall_goes_on_after_a_request_that_failed(show: Show, stage: Stage, tmp_path: Path) -> None:
    go, refused = tmp_path / "go", asyncio.Event()
    request = await stage.ask("bench", "wait", file=str(go))
    page = await show(f"/turns/{request.turn_id}", allowed=("500",))
    await expect(page.get_by_role("row", name="attempt 1")).to_be_visible()

    async def fail(route: Route) -> None:
        await route.fulfill(status=500, json={"error": "internal error", "code": "internal"})
        refused.set()

    await page.route("**/turns/*?content=true", fail)
    await soon(refused.wait())
    await page.unroute("**/turns/*?content=true", fail)
    go.touch()
    await expect(page.get_by_role("row", name="completed")).to_be_visible()


async def test_a_turn_is_executed_again_and_compared(show: Show, stage: Stage) -> None:
    request = await stage.turn("chief", message=INSIDE)
    page = await show(f"/turns/{request.turn_id}")
    await page.get_by_role("button", name="Run again").click()
    await page.get_by_role("dialog").get_by_label("Agent").select_option("plain")
    await page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    await expect(page.get_by_role("heading", name="Side by side")).to_be_visible()
    await expect(page.get_by_text("The answers differ.")).to_be_visible()
    await expect(page.get_by_role("treegrid")).to_have_count(2)
    await expect(page.get_by_role("row", name="Model calls")).to_contain_text("3")
    assert await violations(page) == []


async def test_a_turn_that_the_log_does_not_have_is_explained(show: Show, world: World) -> None:
    page = await show("/turns/nothing", allowed=("404",))
    await expect(page.get_by_text("The log has no such turn")).to_be_visible()
    await expect(page.get_by_role("link", name="All turns")).to_be_visible()
    assert world.lab.base in page.url


pytestmark = pytest.mark.timeout(60)
