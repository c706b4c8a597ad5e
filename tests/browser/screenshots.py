"""`python -m tests.browser.screenshots [FOLDER]`: the pictures of `docs/console.md`, of a stack that really runs.

Agents, tools, search, Mnemosyne, the log and a lost worker are real; only the model is ours (`tests.browser.story`).
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from mcp import Client
from playwright.async_api import expect
from tests.browser.story import AGAIN, QUESTION, SMALL
from tests.browser.studio import Studio, a_studio, furnish
from tests.e2e.calls import call

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SHORTEN = "(code, [jwt, short]) => { code.textContent = code.textContent.replace(jwt, short) }"
CROWD = (
    ("research", "What is a turn?"),
    ("engineering", "Add up 41 and 82."),
    ("harper", QUESTION),
    ("research", "What is a worker?"),
    ("engineering", "Add up the invoices."),
    ("engineering", "Overload the model."),
    ("research", "Who reads a library?"),
    ("harper", AGAIN),
    ("research", "What is a library?"),
)


async def talk(studio: Studio) -> str:
    """A conversation with a picture of its running answer. Returns the id of the turn."""
    await studio.show("/workspaces/demo")
    page = studio.page
    await page.get_by_role("button", name="Agent:").click()
    await page.get_by_role("option", name="Harper").click()
    await page.get_by_label("Message", exact=True).fill(QUESTION)
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("article").get_by_text("For your two workspaces")).to_be_visible(timeout=60_000)
    await studio.shoot("chat")
    await page.get_by_role("link", name="Explain this answer").click(timeout=60_000)
    await page.wait_for_url("**/turns/*")
    return page.url.rpartition("/")[2]


async def lose_a_worker(studio: Studio) -> str:
    """A turn that a second attempt ends. Returns its id."""
    page = studio.page
    await page.get_by_role("link", name="Conversation").click()
    studio.model.stalls = True
    await page.get_by_label("Message", exact=True).fill(AGAIN)
    await page.get_by_role("button", name="Send").click()
    await studio.model.stalled.wait()
    studio.model.stalls = False
    for pid in studio.ready["pids"]["agent-worker"]:
        os.kill(pid, signal.SIGKILL)
    await page.get_by_role("link", name="Explain this answer").nth(1).click(timeout=90_000)
    await page.wait_for_url("**/turns/*")
    return page.url.rpartition("/")[2]


async def compare(studio: Studio, turn: str) -> None:
    """The first turn again with a smaller model."""
    await studio.show(f"/turns/{turn}")
    page = studio.page
    await page.get_by_role("button", name="Run again").click()
    await page.get_by_label("Model", exact=True).select_option(f"generic.{SMALL}")
    await page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    await page.get_by_role("dialog").get_by_role("button", name="Run anyway").click()
    await expect(page.get_by_text("The answers differ.")).to_be_visible(timeout=60_000)
    await studio.shoot("compare", 1100)


async def crowd(studio: Studio) -> None:
    """More turns for the list, one of which fails and one of which runs on."""
    for agent, message in CROWD:
        async with Client(f"{studio.ready['gateway']}/teams/demo/mcp/{agent}") as client:
            await call(client, agent, message)
    studio.model.stalls, studio.model.stalled = True, asyncio.Event()
    await studio.show("/turns")
    async with Client(f"{studio.ready['gateway']}/teams/demo/mcp/harper") as client:
        running = asyncio.create_task(call(client, "harper", AGAIN))
        await studio.model.stalled.wait()
        await expect(studio.page.get_by_role("cell", name="Running")).to_be_visible()
        await studio.shoot("turns")
        studio.model.stalls = False
        running.cancel()
        await asyncio.wait([running])


async def teams(studio: Studio) -> None:
    """The teams of a workspace, one of them about to be attached."""
    [contracts] = [one for one in (await studio.get("/workspaces"))["workspaces"] if one["name"] == "Contracts"]
    await studio.show(f"/workspaces/{contracts['id']}/settings")
    await studio.page.get_by_role("checkbox", name="Kottos").check()
    await studio.shoot("teams")


async def reveal(studio: Studio, instance: str) -> None:
    """A JWT that is shown once. Its middle is left out, as there is no reason to publish it."""
    await studio.post(f"/pallas/{instance}/rotate")
    await studio.show(f"/teams/{instance}")
    page = studio.page
    await page.get_by_role("button", name="Reveal once").click()
    await page.get_by_role("dialog").get_by_role("button", name="Reveal once").click()
    shown = page.get_by_label("JWT", exact=True)
    jwt = await shown.inner_text()
    for place in (shown, page.get_by_label("For fastagent.secrets.yaml of the team", exact=True)):
        await place.locator("code").evaluate(SHORTEN, [jwt, f"{jwt[:24]}{'…' * 12}{jwt[-12:]}"])
    await studio.shoot("reveal")


async def main(folder: Path) -> None:
    """Take all of them."""
    async with a_studio(folder) as studio:
        demo = await furnish(studio)
        first = await talk(studio)
        second = await lose_a_worker(studio)
        await studio.show(f"/turns/{second}")
        await studio.shoot("turn", 1180)
        await compare(studio, first)
        await crowd(studio)
        for path, name in (("health", "health"), ("teams", "instances")):
            await studio.show(f"/{path}")
            await studio.shoot(name)
        await teams(studio)
        await reveal(studio, demo)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(target))
