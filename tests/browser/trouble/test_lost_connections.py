"""Reloads, lost connections, a service that dies: each message is sent once, and each answer shown once."""

import asyncio
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, Request, Route, expect
from tests.browser.pages import OpenPage, Show, shows
from tests.embedded import free_port
from tests.integration.processes import Service, a_service
from tests.integration.workspaces.chat.talk import attach
from tests.integration.workspaces.lab import Lab, environment
from tests.postgres import PostgresServer
from tests.waiting import soon
from tests.workspaces_world.agent import Agent

from pallas_postgres.engine import open_engine
from workspaces.live.hub import ALL

pytestmark = pytest.mark.timeout(90)

RESTARTS_WITHIN, SLACK = 3.0, 4
HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def say(page: Page, text: str) -> None:
    """Send a message."""
    box = page.get_by_role("textbox", name="Message")
    await box.fill(text)
    await box.press("Enter")


async def assert_transcript(page: Page, *texts: str) -> None:
    """Wait until the transcript is these messages, each once."""
    await expect(page.locator("article .bubble, article .md")).to_have_text(list(texts))
    await expect(page.locator(".thinking")).to_have_count(0)


async def test_a_reload_in_the_middle_of_an_answer_changes_nothing(show: Show, harper: Agent) -> None:
    page = await show()
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    await say(page, "Tell me")
    work = await harper.next()
    await work.progress("Looking it up")
    await work.text("Half an ")
    await expect(page.locator(".md")).to_have_text("Half an")
    await page.reload()
    await expect(page.locator(".status-text")).to_have_text("Looking it up")
    await expect(page.locator(".md")).to_have_text("Half an")
    await work.text("answer")
    await expect(page.locator(".md")).to_have_text("Half an answer")
    await work.answer("Half an answer, and the rest.")
    await assert_transcript(page, "Tell me", "Half an answer, and the rest.")
    assert harper.executed == ["Tell me"]
    assert sum("/events?" in url for url in asked) <= 4


async def test_a_reload_while_the_database_is_away_heals_by_itself(show: Show, harper: Agent) -> None:
    page = await show(allowed=("503",))
    await say(page, "Tell me")
    work = await harper.next()
    away = {"error": "the database cannot be used right now; try again", "code": "unavailable"}

    async def fail(route: Route) -> None:
        await route.fulfill(status=503, json=away)

    await page.route("**/session", fail)
    await page.reload()
    await expect(page.get_by_role("alert")).to_contain_text("The database cannot be used right now")
    await work.answer("All of it.")
    await page.unroute("**/session", fail)
    await assert_transcript(page, "Tell me", "All of it.")


async def test_changes_that_come_faster_than_answers_do_not_put_off_a_page(show: Show, lab: Lab) -> None:
    asked, go = list[Route](), asyncio.Event()

    async def slow(route: Route) -> None:
        asked.append(route)
        if len(asked) == 1:
            await go.wait()
            await route.continue_()

    page = await show("/health")
    await page.context.route("**/api/v1/pallas", slow)
    async with page.expect_request("**/api/v1/pallas"):
        await page.get_by_role("link", name="Teams").click()
    async with page.expect_request("**/api/v1/workspaces"):
        for kind in ("health", "instance", "workspace"):
            await lab.service.parts.hub.tell(ALL, kind, {"id": "ws"})
    go.set()
    await expect(page.get_by_role("heading", name="Kottos")).to_be_visible()
    assert len(asked) == 2, "what changed meanwhile is asked for once"


async def test_what_came_while_the_tab_was_hidden_is_there_when_it_is_seen_again(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "Tell me")
    work = await harper.next()
    await work.text("Half")
    await expect(page.locator(".md")).to_have_text("Half")
    async with page.expect_event("requestfailed", lambda request: "/events" in request.url):
        await page.evaluate(HIDE, True)
    await work.answer("All of it.")
    await page.evaluate(HIDE, False)
    await assert_transcript(page, "Tell me", "All of it.")


async def test_a_double_click_on_send_sends_once_and_cancels_nothing(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "Hello")
    await (await harper.next()).answer("Good day.")
    await assert_transcript(page, "Hello", "Good day.")
    await page.get_by_role("textbox", name="Message").fill("Once")
    place = await page.get_by_role("button", name="Send").bounding_box()
    assert place
    await page.mouse.click(place["x"] + 5, place["y"] + 5)
    cancel = page.get_by_role("button", name="Cancel the answer")
    await expect(cancel).to_be_visible()
    await page.mouse.down(click_count=2)  # where the other button was
    await page.mouse.up(click_count=2)
    work = await harper.next(2)
    await work.progress("At work")
    await expect(page.locator(".status-text")).to_have_text("At work")
    await work.answer("Yes.")
    await assert_transcript(page, "Hello", "Good day.", "Once", "Yes.")
    assert harper.executed == ["Hello", "Once"]


async def test_a_service_that_was_killed_and_restarted_shows_the_answer_once(
    open_page: OpenPage, postgres: PostgresServer, nats_url: str, harper: Agent, tmp_path: Path
) -> None:
    url, port = await postgres.new_database(), free_port()
    async with a_process(url, port, tmp_path, nats_url) as service:
        engine = open_engine(url, pool=1, service="tests")
        await attach(engine, harper)
        await engine.dispose()
        # A service that is starting answers 503.
        lost = ("ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_EMPTY", "ERR_CONTENT_LENGTH", "503")
        page = await shows(open_page, service.base)(allowed=lost)
        streams = list[Request]()
        page.on("request", lambda request: streams.append(request) if "/events" in request.url else None)
        await say(page, "Tell me")
        work = await harper.next()
        await work.text("Half an ")
        await expect(page.locator(".md")).to_have_text("Half an")
        streams.clear()
        service.send(signal.SIGKILL)
        await soon(work.left.wait())
        await work.answer("Half an answer, and the rest.")
    async with a_process(url, port, tmp_path, nats_url):
        began = time.monotonic()
        await assert_transcript(page, "Tell me", "Half an answer, and the rest.")
        took = time.monotonic() - began
    assert harper.executed == ["Tell me"]
    assert "last-event-id" in await streams[-1].all_headers()
    assert took < RESTARTS_WITHIN * SLACK, took
    print(f"the answer was there {took:.2f} s after the service was ready again")


@asynccontextmanager
async def a_process(url: str, port: int, folder: Path, nats_url: str) -> AsyncGenerator[Service]:
    """The service as a process, once it is ready."""
    settings = environment(postgres_url=url, port=str(port))
    async with a_service("workspaces", nats_url, folder, "workspaces", settings, port=str(port)) as service:
        await service.ready()
        yield service
