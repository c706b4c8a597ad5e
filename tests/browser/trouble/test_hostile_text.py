"""Whatever agents, registries and people write: no script of theirs runs, nothing of theirs is loaded."""

import uuid
from collections.abc import Generator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import batched
from typing import Any

import pytest
from playwright.async_api import Page, expect
from sqlalchemy import insert
from tests.browser.pages import Show
from tests.browser.trouble.corpus import CORPUS
from tests.integration.workspaces.chat.talk import begin
from tests.integration.workspaces.lab import API, Lab
from tests.workspaces_world.agent import Agent

from workspaces.live.hub import ALL
from workspaces.tables import AgentConnection, Assignment, Base, ChatMessage, Conversation, PallasInstance, Workspace

pytestmark = pytest.mark.timeout(120)

PAGE, HOUR = 50, timedelta(hours=1)
LONGEST = 480
FOUND = """() => {
  const bad = [];
  const forbidden = "script:not([src^='/assets/']),iframe,frame,object,embed,base,meta[http-equiv],"
    + "template,style,audio,video,math,foreignObject,animate,set,form[action],[formaction],[srcdoc],"
    + "[style]:is(.md *),img:is(.md *),svg:is(.md *),input:is(.md *)";
  for (const each of document.querySelectorAll(forbidden)) bad.push(each.outerHTML.slice(0, 200));
  for (const each of document.querySelectorAll("*"))
    for (const { name, value } of each.attributes) {
      if (name.startsWith("on")) bad.push(each.outerHTML.slice(0, 200));
      if (["href", "src", "action", "xlink:href", "data", "poster", "background"].includes(name)
          && !/^(https?:\\/\\/|mailto:|\\/(?![/\\\\])|#|blob:http:)/i.test(value)) bad.push(`${name}=${value}`);
    }
  return bad;
}"""
"""Everything in the page that could run a script, load something or leave for a strange address."""


class Watched:
    """A page whose every request is noted, and every call of `alert`, in all frames."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.ran = list[str]()
        self.foreign = list[str]()
        self._base = base
        page.on("dialog", lambda dialog: self.ran.append(dialog.message))
        page.on("request", lambda request: self._note(request.url))

    def _note(self, url: str) -> None:
        if not url.startswith((self._base, "data:image/", "blob:")):
            self.foreign.append(url)

    async def assert_harmless(self) -> None:
        """Fail if anything ran, was loaded, or could be."""
        assert await self.page.evaluate(FOUND) == []
        assert (self.ran, self.foreign) == ([], [])


async def watched(show: Show, lab: Lab, path: str, allowed: tuple[str, ...] = ()) -> Watched:
    """Open a page and watch it from now on."""
    page = await show("/settings", allowed=allowed)
    seen = Watched(page, lab.base)
    await page.goto(f"{lab.base}{path}")
    return seen


async def store(lab: Lab, table: type[Base], rows: Sequence[dict[str, Any]]) -> None:
    """Store rows."""
    async with lab.service.parts.engine.begin() as connection:
        await connection.execute(insert(table), rows)


def lines_of(texts: Sequence[str]) -> Generator[list[str]]:
    """The texts, as many at a time as a status line may have."""
    line = list[str]()
    for text in texts:
        if sum(map(len, line)) + len(line) + len(text) > LONGEST:
            yield line
            line = []
        line.append(text)
    yield line


async def test_in_the_names_descriptions_and_icons_of_agents(show: Show, lab: Lab) -> None:
    team = str(uuid.uuid4())
    texts = ["  ".join(some) for some in batched(CORPUS, 8, strict=False)]
    icons = [f"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'>{text}</svg>" for text in texts]
    agents = [
        {
            "server_id": f"pallas-{number}",
            "name": f"a/{number}",
            "title": text,
            "description": text,
            "icon": CORPUS[number] if number % 2 else icon,
            "url": "http://127.0.0.1:1",
        }
        for number, (text, icon) in enumerate(zip(texts, icons, strict=True))
    ]
    await store(lab, Workspace, [{"id": "zoo", "name": CORPUS[0]}])
    registered = {"id": team, "name": CORPUS[1], "registry_url": "http://a.test", "agents": agents, "unusable": []}
    await store(lab, PallasInstance, [registered])
    await store(lab, Assignment, [{"workspace_id": "zoo", "pallas_instance_id": team}])
    connected = [{"workspace_id": "zoo", "pallas_instance_id": team, **agent} for agent in agents]
    await store(lab, AgentConnection, connected)
    seen = await watched(show, lab, "/workspaces/zoo", ("404",))
    await seen.page.get_by_role("button", name="Agent: ").click()
    await expect(seen.page.locator("[role=option]")).to_have_count(len(agents))
    await seen.assert_harmless()
    for path in (f"/teams/{team}", "/teams", "/workspaces/zoo/settings", "/health", "/workspaces"):
        await seen.page.goto(f"{lab.base}{path}")
        await expect(seen.page.get_by_role("heading", level=1)).to_be_visible()
        await expect(seen.page.get_by_role("status", name="Loading")).to_have_count(0)
        await seen.assert_harmless()


async def test_in_an_icon_that_is_opened_as_a_page(show: Show, lab: Lab) -> None:
    svg = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>"
    agents = [{"server_id": "pallas-a", "name": "a/a", "title": "A", "url": "http://127.0.0.1:1", "icon": svg}]
    await store(lab, PallasInstance, [{"id": "a", "name": "A", "registry_url": "http://a.test", "agents": agents}])
    [icon] = (await lab.browser.get(f"{API}/pallas/a")).json()["agents"]
    seen = await watched(show, lab, icon["icon"], ("sandbox", "script"))
    assert await seen.page.evaluate("document.documentElement.tagName") == "svg"
    assert (seen.ran, seen.foreign) == ([], [])


async def test_in_answers_and_titles_of_conversations(show: Show, lab: Lab) -> None:
    now = datetime.now(UTC)
    conversations = [
        {"id": str(uuid.uuid4()), "workspace_id": "ws", "title": " ".join(texts), "updated_at": now - number * HOUR}
        for number, texts in enumerate(batched(CORPUS, 4, strict=False))
    ]
    await store(lab, Conversation, conversations)
    told = [each["id"] for each in conversations[: (len(CORPUS) + PAGE - 1) // PAGE]]
    rows = [
        {"id": str(uuid.uuid4()), "conversation_id": conversation, "seq": seq, "role": "assistant",
         "content": text, "status": "answered",
         "agent_title": text, "turn_id": text}
        for conversation, texts in zip(told, batched(CORPUS, PAGE, strict=False), strict=True)
        for seq, text in enumerate(texts, 1)
    ]  # fmt: skip
    await store(lab, ChatMessage, rows)
    seen = await watched(show, lab, "/workspaces/ws")
    links = seen.page.locator(".conversation-scroll li")
    for number in range(PAGE, len(conversations), PAGE):
        await expect(links).to_have_count(number)
        await links.last.scroll_into_view_if_needed()
    await expect(links).to_have_count(len(conversations))
    await seen.assert_harmless()
    for conversation in told:
        await seen.page.locator(f"a[href$='{conversation}']").click()
        await expect(seen.page.locator(".conversation-scroll [aria-current=page]")).to_have_count(1)
        count = sum(row["conversation_id"] == conversation for row in rows)
        await expect(seen.page.locator("article")).to_have_count(count)
        await seen.assert_harmless()


async def test_in_what_comes_while_an_agent_works(show: Show, lab: Lab, harper: Agent) -> None:
    talk = await begin(lab.browser)
    await talk.send()
    work = await harper.next()
    seen = await watched(show, lab, f"/workspaces/ws/conversations/{talk.conversation}")
    await expect(seen.page.get_by_role("textbox", name="Message")).to_be_enabled()  # the agents are loaded
    hub, agent = lab.service.parts.hub, {"server_id": "pallas-harper", "title": "Harper"}
    [instance] = (await lab.browser.get(f"{API}/pallas")).json()["instances"]
    for number, texts in enumerate(lines_of(CORPUS)):
        line = f"{number}. {' '.join(texts)}"
        await work.progress(line, number)
        await expect(seen.page.locator(".status-text")).to_contain_text(f"{number}. ")
        health = {"status": ("degraded", "error")[number % 2], "message": line}
        told = {"instance_id": instance["id"], "instance": "Kottos", **agent, "health": health}
        await hub.tell(ALL, "health", told)
        await work.text("\n\n".join(texts) + "\n\n")
        await expect(seen.page.locator(".composer .banner")).to_contain_text(f"{number}. ")
        await seen.assert_harmless()
    await work.text("The end.")
    await expect(seen.page.get_by_text("The end.")).to_be_visible()
    await seen.assert_harmless()
    await work.fail("\n".join(CORPUS[::20]), CORPUS[0])
    await expect(seen.page.get_by_role("log").get_by_role("group")).to_be_visible()
    await seen.assert_harmless()
