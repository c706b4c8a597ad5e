"""A stack that really runs with a console in a browser, and what an operator does there before pictures are taken."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Page, async_playwright, expect
from tests.browser.chromium import ARGUMENTS, chromium
from tests.browser.story import ICONS, LARGE, SMALL, StoryModel
from tests.e2e.stack import Stack
from tests.workspaces_world.registry import Registry

API = "/api/v1"
LARGEST = 200_000
"""Bytes of a picture."""
WIDTH = 1280


@dataclass
class Studio:
    """A running stack, its console in a browser, and where the pictures go."""

    ready: dict[str, Any]
    http: httpx.AsyncClient
    model: StoryModel
    registry: Registry
    page: Page
    folder: Path

    async def shoot(self, name: str, height: int = 800) -> None:
        """Take the page in both themes."""
        await self.page.set_viewport_size({"width": WIDTH, "height": height})
        for scheme, ending in (("light", ""), ("dark", "-dark")):
            await self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
            file = self.folder / f"console-{name}{ending}.png"
            await self.page.screenshot(path=file, animations="disabled")
            print(f"{file.name}: {file.stat().st_size:,} bytes")
            assert file.stat().st_size <= LARGEST, f"{file.name} is too large"
        await self.page.emulate_media(color_scheme="light")

    async def show(self, path: str) -> None:
        """Open a page, and wait until it has loaded what it shows."""
        await self.page.goto(f"{self.ready['workspaces']}{path}")
        await expect(self.page.get_by_role("link", name="Contracts")).to_be_visible()
        await expect(self.page.locator("main h1, main h2").first).to_be_visible()
        await expect(self.page.get_by_role("status", name="Loading")).to_have_count(0)

    async def get(self, path: str) -> dict[str, Any]:
        """An answer of the API."""
        return (await self.http.get(f"{API}{path}")).raise_for_status().json()

    async def post(self, path: str, **body: Any) -> dict[str, Any]:
        """The answer to a change."""
        return (await self.http.post(f"{API}{path}", json=body)).raise_for_status().json()


async def until[R](found: Callable[[], Awaitable[R | None]], what: str, seconds: float = 60) -> R:
    """Ask for something outside of this process until it is there."""
    deadline = time.monotonic() + seconds
    while (result := await found()) is None:
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.2)
    return result


def cast_the_agents(team: Path, model: StoryModel) -> None:
    """Give the demo team the model of the story, and icons that need no network. Workers notice it.

    Its files are links to those of the checkout, which stay as they are.
    """
    agents = (team / "agents.yaml").read_text("utf-8")
    for name in ICONS:
        head, _, rest = agents.partition(f"  {name}:\n")
        before, _, after = rest.partition("    icon: ")
        agents = f"{head}  {name}:\n{before}    icon: {model.base}/icons/{name}\n{after.partition('\n')[2]}"
    agents = agents.replace("  engineering:\n", f"  engineering:\n    model: generic.{SMALL}\n")
    config = (team / "fastagent.config.yaml").read_text("utf-8")
    config = config.replace("default_model: offline", f"default_model: generic.{LARGE}")
    config += f"\ngeneric:\n  base_url: {model.base}/v1\n"
    for name, text in (("fastagent.config.yaml", config), ("agents.yaml", agents)):
        (team / name).unlink()
        (team / name).write_text(text, "utf-8")


async def furnish(studio: Studio) -> str:
    """Register instances and make workspaces, as an operator would. Returns the id of the demo instance."""

    async def reloaded() -> str | None:
        [demo] = [one for one in (await studio.get("/pallas"))["instances"] if one["name"] == "Demo"]
        after = await studio.post(f"/pallas/{demo['id']}/refresh")
        models = {agent["capabilities"]["model"] or "" for agent in after["agents"]}
        return demo["id"] if any(LARGE in each for each in models) else None

    demo = await until(reloaded, "the team with its new model")
    kottos = (await studio.post("/pallas", registry_url=f"{studio.registry.base}/teams/kottos", name="Kottos"))["id"]
    for name, attached in (("Contracts", [demo]), ("Suppliers", [demo, kottos]), ("Archive", [])):
        workspace = await studio.post("/workspaces", name=name)
        await studio.http.put(f"{API}/workspaces/{workspace['id']}/pallas", json={"instance_ids": attached})

    async def checked() -> bool | None:
        agents = (await studio.get("/agents/status"))["agents"]
        wanted = {"Demo": "ok", "Kottos": "error"}
        return all(agent["health"]["status"] == wanted[agent["instance"]] for agent in agents) or None

    settings = await studio.get("/settings")
    await studio.http.put(f"{API}/settings", json={**settings, "health_interval": 5})
    await until(checked, "the health of all agents", 120)
    await studio.http.put(f"{API}/settings", json=settings)
    return demo


@asynccontextmanager
async def a_studio(folder: Path) -> AsyncGenerator[Studio]:
    """Start a stack with the model of the story, and log in to its console."""
    program = chromium()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        model, registry = await enter(StoryModel()), await enter(Registry())
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = stack.enter_context(Stack(place, "--no-turn", auth=True))
        ready = await asyncio.to_thread(running.until_ready)
        cast_the_agents(place / "data" / "teams" / "demo", model)
        password = (place / "data" / "secrets" / "admin-password").read_text("utf-8").strip()
        http = await enter(httpx.AsyncClient(base_url=ready["workspaces"], auth=("admin", password), timeout=30))
        browser = await (await enter(async_playwright())).chromium.launch(
            executable_path=program.path, args=list(ARGUMENTS), env={**os.environ, **program.variables}
        )
        stack.push_async_callback(browser.close)
        page = await browser.new_page(viewport={"width": WIDTH, "height": 800})
        await page.request.post(f"{ready['workspaces']}{API}/login", data={"password": password})
        yield Studio(ready, http, model, registry, page, folder)
