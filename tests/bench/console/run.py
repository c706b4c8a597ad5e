"""Measures the console, and shows it as tables."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext
from tests.bench.console import peers
from tests.bench.console.chats import WORKSPACE, attached, reacting, talked
from tests.bench.console.live import measure_kills, measure_progress
from tests.bench.console.many import measure_attaching, measure_polls
from tests.bench.console.pages import CACHED, COLD, OFFLINE, Page, measure_pages
from tests.bench.console.service import Service, a_service
from tests.bench.console.turns import measure_open_chats, measure_overhead
from tests.bench.tables import table
from tests.browser.pages import a_browser
from tests.integration.workspaces.lab import API, PASSWORD
from tests.postgres import PostgresServer

HOME, NEW_CHAT, CHAT = "home", "new-chat", "chat"
NAMES = {
    HOME: "Pallas, list of workspaces",
    NEW_CHAT: "Pallas, a new chat",
    CHAT: "Pallas, a chat with four messages",
    peers.CHAINLIT: "chainlit, a new chat",
    peers.OPEN_WEBUI: "open-webui, a new chat",
}

type Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    rounds: int
    conversations: int
    lines: int
    kills: int
    chats: int
    agents: int
    attached: int
    instances: int


WHOLE = Extent(7, 8, 40, 3, 200, 500, 60, 1000)
QUICK = Extent(1, 2, 10, 1, 50, 100, 10, 50)


def measure(folder: Path, extent: Extent, report: Report) -> dict[str, Any]:
    """All figures. open-webui is among them where it is installed.

    Raises:
        FileNotFoundError: chainlit is not installed; `make bench` does that.
    """
    folder = folder / "console"
    folder.mkdir()
    with PostgresServer(folder / "postgres") as postgres:
        return asyncio.run(_measure(folder, postgres, extent, report))


async def _measure(folder: Path, postgres: PostgresServer, extent: Extent, report: Report) -> dict[str, Any]:
    results = await _in_a_browser(folder, postgres, extent, report)
    async with a_service(folder, postgres) as service:
        results["open"] = await measure_open_chats(service, extent.chats, report)
    results["polls"] = await measure_polls(folder, postgres, extent.agents, report)
    attaching, reconciled = await measure_attaching(folder, postgres, extent.attached, extent.instances, report)
    return results | {"attaching": attaching, "reconciled": reconciled}


async def _in_a_browser(folder: Path, postgres: PostgresServer, extent: Extent, report: Report) -> dict[str, Any]:
    versions = {name: version for name in (peers.CHAINLIT, peers.OPEN_WEBUI) if (version := peers.version(name))}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        browser = await enter(a_browser(OFFLINE))
        service = await enter(a_service(folder, postgres))
        agent = await enter(attached(service))
        async with reacting(agent), AsyncExitStack() as others:
            report("starting the peers")
            pages = [*await _pages(service), await others.enter_async_context(peers.chainlit(folder))]
            if peers.OPEN_WEBUI in versions:
                pages.append(await others.enter_async_context(peers.open_webui(folder)))
            opened = await measure_pages(browser, pages, extent.rounds, report)
        overhead = await measure_overhead(service, agent, extent.conversations, report)
        progress = await measure_progress(browser, service, agent, extent.lines, report)
        kills = await measure_kills(browser, service, agent, extent.kills, report)
    return {"versions": versions, "pages": opened, "overhead": overhead, "progress": progress, "kill": kills}


async def _pages(service: Service) -> list[Page]:
    talk = await talked(service, "What can you do?", "**Nothing** but `this`:\n\n- one\n- two")

    async def log_in(context: BrowserContext) -> None:
        await context.request.post(f"{service.base}{API}/login", data={"password": PASSWORD})

    workspace = f"{service.base}/workspaces/{WORKSPACE}"
    return [
        Page(HOME, service.base, f"main a[href='/workspaces/{WORKSPACE}']", log_in),
        Page(NEW_CHAT, workspace, "textarea:enabled", log_in),
        Page(CHAT, f"{workspace}/conversations/{talk.conversation}", "article.reply .md", log_in),
    ]


def section(found: dict[str, Any]) -> str:
    """The tables."""
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    missing = "" if peers.OPEN_WEBUI in found["versions"] else " open-webui is measured once `make open-webui` was run."
    note = (
        f"{versions}. A Chromium without a network; medians of rounds in which all pages are opened in turn. First "
        "paint is the browser's own entry; usable is when one can type, or when what the page is for is there. A "
        f"filled cache is that of the same session, in which the page was opened before.{missing}"
    )
    return "\n\n".join(("## The console", note, _pages_table(found["pages"]), _others_table(found)))


def _pages_table(pages: dict[str, Any]) -> str:
    head = ("page", "cache", "first paint, ms", "usable, ms", "requests", "kB")
    rows = [
        (
            NAMES[name],
            "empty" if state == COLD else "filled",
            f"{it['paint_ms']:.0f}",
            f"{it['usable_ms']:.0f}",
            f"{it['requests']:.0f}",
            f"{it['kb']:.1f}",
        )
        for name, states in pages.items()
        for state, it in ((COLD, states[COLD]), (CACHED, states[CACHED]))
    ]
    return table(head, rows)


def _others_table(found: dict[str, Any]) -> str:
    added, progress, kill, chats = (found[it] for it in ("overhead", "progress", "kill", "open"))
    polls, attaching, reconciled = (found[it] for it in ("polls", "attaching", "reconciled"))
    turn = f"p50 {added['console_p50_ms']:.1f} ms, the same call with the SDK's client {added['plain_p50_ms']:.1f} ms"
    teams, workspaces = reconciled["instances"], reconciled["workspaces"]
    rows = (
        (f"a message -> its answer in the event stream ({added['turns']} turns)", turn),
        (
            "the same, what the console adds",
            f"p50 {added['added_p50_ms']:.1f} ms, p95 {added['added_p95_ms']:.1f} ms",
        ),
        (
            f"an agent's progress -> pixels ({progress['shown']} of {progress['lines']} lines shown)",
            f"p50 {progress['p50_ms']:.0f} ms, p95 {progress['p95_ms']:.0f} ms",
        ),
        (
            f"service killed (-9) and started again -> the page shows what was said since ({kill['times']} times)",
            f"p50 {kill['p50_s']:.2f} s, max {kill['max_s']:.2f} s",
        ),
        (f"{chats['count']} open chats: service", f"{chats['empty_mib']:.0f} -> {chats['rss_mib']:.0f} MiB"),
        (f"an answer -> all of {chats['count']} open chats", f"{chats['reached_ms']:.0f} ms"),
        (
            f"health of {polls['agents']} agents: first poll, following ones at full speed",
            f"{polls['first_s']:.2f} s, {polls['following_s']:.2f} s",
        ),
        (
            "the same, one check; once a minute",
            f"{polls['check_cpu_ms']:.2f} ms of CPU; {polls['core_share']:.1%} of a core",
        ),
        (
            f"a team is attached or detached -> Mnemosyne has the PUT ({attaching['times']} times)",
            f"p50 {attaching['p50_ms']:.0f} ms, p95 {attaching['p95_ms']:.0f} ms",
        ),
        (
            "the same, from the answer that it is saved",
            f"p50 {attaching['saved_p50_ms']:.0f} ms, p95 {attaching['saved_p95_ms']:.0f} ms",
        ),
        (
            f"{teams} instances with {workspaces} workspaces each: provisioned; compared; put in order again",
            f"{reconciled['provisioned_s']:.1f} s; {reconciled['in_order_s']:.1f} s; {reconciled['lost_s']:.1f} s",
        ),
    )
    return table(("what", "measured"), rows)


def faults(found: dict[str, Any]) -> Iterator[str]:
    """What was wrong."""
    if not found:
        return
    if wrong := found["polls"]["wrong"]:
        yield f"health: {wrong} agents were not well"
    reconciled = found["reconciled"]
    if reconciled["right"] != reconciled["instances"]:
        yield f"reconciler: {reconciled['right']} of {reconciled['instances']} instances have their workspaces"
    if found["progress"]["shown"] < found["progress"]["lines"]:
        yield f"progress: {found['progress']['shown']} of {found['progress']['lines']} lines were shown"
