"""What a person sees of a running answer: how soon, and when the service has died."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from playwright.async_api import Browser, Page
from tests.bench.console.chats import WORKSPACE
from tests.bench.console.service import Service
from tests.bench.figures import percentile
from tests.integration.workspaces.chat.talk import begin
from tests.integration.workspaces.lab import API, PASSWORD
from tests.workspaces_world.agent import Agent, Work

_EVERY = 0.15
_PIECES_EVERY = 0.05
_WATCH = """selector => {
  window.seen = {};
  const look = () => {
    const text = document.querySelector(selector)?.textContent;
    if (!text || text in seen) return;
    seen[text] = 0;
    requestAnimationFrame(() => setTimeout(() => (seen[text] = Date.now())));
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
"""Notes when each text of an element was painted, in milliseconds of the machine's clock."""
_SEEN = "() => Object.fromEntries(Object.entries(seen).filter(([_, at]) => at))"
_BEYOND = """number => {
  const words = document.querySelector("article.reply .md")?.textContent.trim().split(" ") ?? [];
  return Number(words.at(-1)) > number && Date.now();
}"""

type Report = Callable[[str], None]


@asynccontextmanager
async def a_running_answer(browser: Browser, service: Service, agent: Agent) -> AsyncGenerator[tuple[Page, Work]]:
    """A page with an answer that has begun."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    await context.request.post(f"{service.base}{API}/login", data={"password": PASSWORD})
    talk, before = await begin(service.http), len(agent.works.items)
    page = await context.new_page()
    await page.goto(f"{service.base}/workspaces/{WORKSPACE}/conversations/{talk.conversation}")
    box = page.get_by_role("textbox", name="Message")
    await box.fill("Tell me")
    await box.press("Enter")
    work = await agent.next(before + 1)
    try:
        yield page, work
    finally:
        await work.answer("That is all.")
        await context.close()


async def measure_progress(
    browser: Browser, service: Service, agent: Agent, lines: int, report: Report
) -> dict[str, Any]:
    """Milliseconds from the agent's line of progress to its pixels."""
    report(f"{lines} lines of progress")
    sent = dict[str, float]()
    async with a_running_answer(browser, service, agent) as (page, work):
        await work.progress("begun")
        await page.wait_for_selector(".status-text")
        await page.evaluate(_WATCH, ".status-text")
        for number in range(lines):
            await asyncio.sleep(_EVERY)
            sent[f"Line {number}"] = 1000 * time.time()
            await work.progress(f"Line {number}")
        await asyncio.sleep(2 * _EVERY)
        seen: dict[str, float] = await page.evaluate(_SEEN)
    late = [seen[line] - at for line, at in sent.items() if line in seen]
    return {
        "lines": lines,
        "shown": len(late),
        "p50_ms": percentile(late, 0.5),
        "p95_ms": percentile(late, 0.95),
    }


async def measure_kills(browser: Browser, service: Service, agent: Agent, times: int, report: Report) -> dict[str, Any]:
    """Seconds from the kill of the service, which is started again at once, until the page shows what came after it."""
    seconds = list[float]()
    process = service.process
    async with a_running_answer(browser, service, agent) as (page, work):
        said = 0

        async def keep_talking() -> None:
            nonlocal said
            for said in count(1):
                await work.text(f"{said} ")
                await asyncio.sleep(_PIECES_EVERY)

        talking = asyncio.create_task(keep_talking())
        for number in range(1, times + 1):
            report(f"the service is killed, {number} of {times}")
            await page.wait_for_function(_BEYOND, arg=said)
            os.kill(process.pid, signal.SIGKILL)
            killed, last = time.time(), said
            await asyncio.to_thread(process.stop)
            process = await service.start_again()
            shown = await page.wait_for_function(_BEYOND, arg=last, timeout=60_000)
            seconds.append(await shown.json_value() / 1000 - killed)
        talking.cancel()
    return {"times": times, "p50_s": percentile(seconds, 0.5), "max_s": max(seconds), "seconds": seconds}
