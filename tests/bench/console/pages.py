"""Pages in a browser with an empty cache and with a full one: first paint, when they can be used, what they load.

All pages are opened in turn in each round, those of the peers as well. Nothing but this machine can be reached.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

from playwright.async_api import Browser, BrowserContext
from tests.integration.real_parts import until

OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
COLD, CACHED = "cold", "cached"
_QUIET = 0.3
_WITHIN = 30.0
_PAINT = """() => new Promise(resolve => {
  const look = () => {
    const [entry] = performance.getEntriesByName("first-contentful-paint");
    if (entry) resolve(entry.startTime); else setTimeout(look, 5);
  };
  look();
})"""
_SHOWN = """selector => new Promise(resolve => {
  const look = () => {
    if (document.querySelector(selector)?.checkVisibility()) resolve(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})"""

type LogIn = Callable[[BrowserContext], Awaitable[None]]


async def nobody(_context: BrowserContext) -> None:
    """Log nobody in."""


@dataclass(frozen=True)
class Page:
    """A page, and what is there when it can be used."""

    name: str
    url: str
    shows: str
    log_in: LogIn = nobody


class _Session(Protocol):
    """A session of Chrome's DevTools protocol."""

    def on(self, event: str, f: Callable[[dict[str, Any]], None]) -> None: ...
    def send(self, method: str) -> Awaitable[object]: ...


@dataclass
class _Traffic:
    """What a page loads. An event stream that goes on counts with its head."""

    asked: dict[str, str] = field(default_factory=dict[str, str])
    size: dict[str, int] = field(default_factory=dict[str, int])
    cached: set[str] = field(default_factory=set[str])
    last: float = field(default_factory=time.monotonic)

    async def listen(self, session: _Session) -> None:
        """Listen to the network."""
        session.on("Network.requestWillBeSent", self._begin)
        session.on("Network.requestServedFromCache", self._serve_from_cache)
        session.on("Network.responseReceived", self._answer)
        session.on("Network.loadingFinished", self._finish)
        await session.send("Network.enable")

    def _begin(self, event: dict[str, Any]) -> None:
        if event["request"]["url"].startswith("http://127.0.0.1"):
            self.asked[event["requestId"]] = event["request"]["url"]
            self.last = time.monotonic()

    def _serve_from_cache(self, event: dict[str, Any]) -> None:
        self.cached.add(event["requestId"])

    def _answer(self, event: dict[str, Any]) -> None:
        response = event["response"]
        self.size[event["requestId"]] = response["encodedDataLength"]
        if response.get("fromDiskCache") or response.get("fromPrefetchCache"):
            self.cached.add(event["requestId"])

    def _finish(self, event: dict[str, Any]) -> None:
        self.size[event["requestId"]] = event["encodedDataLength"]
        self.last = time.monotonic()

    async def quiet(self) -> None:
        """Wait until nothing is asked for any more."""

        async def silent() -> bool:
            return time.monotonic() - self.last >= _QUIET

        await until(silent)

    def figures(self) -> dict[str, float]:
        """Requests that left the browser, and the bytes of their answers."""
        sent = self.asked.keys() - self.cached
        return {"requests": len(sent), "kb": sum(self.size.get(each, 0) for each in sent) / 1000}


async def measure_pages(
    browser: Browser, pages: Sequence[Page], rounds: int, report: Callable[[str], None]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Figures by page and state of the cache: medians, and first paints of all rounds. A first round is not counted."""
    found = {page.name: {COLD: list[dict[str, float]](), CACHED: list[dict[str, float]]()} for page in pages}
    for number in range(rounds + 1):
        report(f"pages, round {number} of {rounds}" if number else "pages, once before they are measured")
        for page in pages:
            context = await browser.new_context(locale="en-US", viewport={"width": 1280, "height": 800})
            await page.log_in(context)
            for state in (COLD, CACHED):
                one = await _open(context, page)
                if number:
                    found[page.name][state].append(one)
            await context.close()
    return {name: {state: _summary(each) for state, each in states.items()} for name, states in found.items()}


async def _open(context: BrowserContext, page: Page) -> dict[str, float]:
    opened = await context.new_page()
    traffic = _Traffic()
    await traffic.listen(await context.new_cdp_session(opened))
    await opened.goto(page.url, wait_until="commit")
    async with asyncio.timeout(_WITHIN):
        usable_ms: float = await opened.evaluate(_SHOWN, page.shows)
        paint_ms: float = await opened.evaluate(_PAINT)
    await traffic.quiet()
    await opened.close()
    return {"paint_ms": paint_ms, "usable_ms": usable_ms, **traffic.figures()}


def _summary(opened: Sequence[dict[str, float]]) -> dict[str, Any]:
    return {
        **{name: median(one[name] for one in opened) for name in ("paint_ms", "usable_ms", "requests", "kb")},
        "paint_ms_rounds": [one["paint_ms"] for one in opened],
    }
