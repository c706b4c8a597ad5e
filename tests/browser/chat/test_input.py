"""What people and agents may give to the chat: drafts, images, long histories, and text that means harm."""

import asyncio
import base64
import re
import uuid
from typing import Any

import pytest
from playwright.async_api import FilePayload, Page, Route, expect
from sqlalchemy import insert, text
from tests.browser.chat.talking import reply, say
from tests.browser.pages import Show, a_browser
from tests.integration.workspaces.chat.talk import attach, begin
from tests.integration.workspaces.lab import API, PASSWORD, Lab
from tests.workspaces_world.agent import Agent

from workspaces.tables import ChatMessage

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
MEANT_HARM = """<script>alert(1)</script> <img src=x onerror=alert(1)> <svg onload=alert(1)>
<iframe src="javascript:alert(1)">

[a](javascript:alert(1)) [b](data:text/html;base64,PHNjcmlwdD4=) [c](/api/v1/logout) ![d](https://evil.example/p.png)

<a href="https://evil.example" onclick="alert(1)" style="position:fixed">e</a>
<form action=//evil.example><button>f</button></form>

```html"><img src=x onerror=alert(1)>
</code></pre><script>alert(1)</script>
```
"""


TO_THE_TOP = """t => new Promise(done => {
    const step = () => {
        t.scrollTop = 0;
        const there = [...t.querySelectorAll(".bubble")].some(each => each.textContent === "Message 1.");
        there ? done() : requestAnimationFrame(step);
    };
    step();
})"""


async def test_a_draft_stays_with_its_conversation(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "First")
    await (await harper.next()).answer("Yes?")
    await expect(reply(page)).to_contain_text("Yes?")
    box = page.get_by_role("textbox", name="Message")
    await box.fill("unfinished")
    await box.press("Shift+Enter")
    await page.get_by_role("link", name="New conversation").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("New conversation")
    await expect(box).to_have_value("")
    await page.go_back()
    await expect(box).to_have_value("unfinished\n")
    await page.reload()
    await expect(box).to_have_value("unfinished\n")


async def test_the_first_message_is_seen_until_its_conversation_is_there(show: Show, lab: Lab, harper: Agent) -> None:
    page = await show()
    made, loaded = asyncio.Event(), asyncio.Event()

    async def slowly(route: Route) -> None:
        await (made if route.request.method == "POST" else loaded).wait()
        await route.continue_()

    await page.route(re.compile("/conversations/[^/]+/messages$|limit="), slowly)
    await say(page, "Hello")
    await expect(page.get_by_role("textbox", name="Message")).to_have_value("Hello")
    made.set()
    await page.wait_for_url("**/conversations/*")
    await expect(page.get_by_role("article", name="You")).to_have_text("Hello")
    conversation = page.url.rpartition("/")[2]
    await lab.command_line.patch(f"{API}/conversations/{conversation}", json={"title": "Known before it is loaded"})
    await expect(page.get_by_role("heading", level=1)).to_have_text("Known before it is loaded")
    await expect(page.get_by_role("article", name="You")).to_have_text("Hello")
    loaded.set()
    await (await harper.next()).answer("Good day.")
    await expect(reply(page)).to_contain_text("Good day.")
    await expect(page.get_by_role("article")).to_have_count(2)


async def test_a_first_message_that_is_refused_leaves_no_conversation(show: Show, lab: Lab, harper: Agent) -> None:
    page = await show(allowed=("403", "422", "ERR_FAILED"))
    box, none = page.get_by_role("textbox", name="Message"), page.get_by_text("No conversations yet.")
    await say(page, "x" * 200_001)
    await expect(page.get_by_role("alert")).to_contain_text("200000")
    await expect(none).to_be_visible()
    engine = lab.service.parts.engine
    async with engine.begin() as connection:
        await connection.execute(text("delete from workspace_pallas_assignments"))
    await say(page, "Hello")
    await expect(page.get_by_role("alert")).to_contain_text("not attached")
    await expect(box).to_be_disabled()
    await expect(box).to_have_value("Hello")
    await expect(none).to_be_visible()
    assert await _count(lab) == 0
    await attach(engine, harper, team="Gyges")
    await expect(box).to_be_enabled()

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await page.route("**/messages", lose, times=1)
    await box.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    await expect(box).to_have_value("Hello")
    await box.press("Enter")
    await (await harper.next()).answer("Good day.")
    await expect(reply(page)).to_contain_text("Good day.")
    await expect(box).to_have_value("")
    assert harper.executed == ["Hello"]
    assert await _count(lab) == 1


async def _count(lab: Lab) -> int:
    """How many conversations there are."""
    return len((await lab.command_line.get(f"{API}/workspaces/ws/conversations")).json()["conversations"])


async def test_a_text_that_is_too_long_to_send_is_not_pasted(show: Show) -> None:
    page = await show()
    box = page.get_by_role("textbox", name="Message")
    await box.fill("Before. ")
    await box.evaluate("""box => {
        const clipboardData = new DataTransfer();
        clipboardData.setData("text/plain", "word ".repeat(10_000_000));
        box.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    }""")
    await expect(page.get_by_role("alert")).to_contain_text("it may have 200,000")
    await expect(box).to_have_value("Before. ")


async def test_images_are_shown_before_and_after_they_are_sent(show: Show, harper: Agent) -> None:
    page = await show()
    files = page.locator("input[type=file]")
    await files.set_input_files([
        {"name": "a.png", "mimeType": "image/png", "buffer": PNG},
        {"name": "b.pdf", "mimeType": "application/pdf", "buffer": b"%PDF"},
        {"name": "c.png", "mimeType": "image/png", "buffer": PNG + bytes(6_000_000)},
        {"name": "d.png", "mimeType": "image/png", "buffer": b"no image"},
    ])  # fmt: skip
    await expect(page.get_by_role("img", name="a.png")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_text(
        [
            "b.pdf cannot be sent: agents take images and text files.",
            "c.png has 6.0 MB; an image may have 5.2 MB.",
            "d.png cannot be read as an image.",
        ]
    )
    await say(page, "What is this?")
    work = await harper.next()
    assert [one["mime_type"] for one in work.arguments["images"]] == ["image/png"]
    await work.answer("A dot.")
    picture = page.get_by_role("img", name="Image of this message")
    await expect(picture).to_be_visible()
    await expect(picture).to_have_attribute("src", re.compile("^/api/v1/images/"))
    assert await picture.evaluate("async image => { await image.decode(); return image.naturalWidth }") == 1


async def test_images_of_a_draft_stay_with_it(show: Show) -> None:
    page = await show()
    await page.locator("input[type=file]").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": PNG})
    await expect(page.get_by_role("img", name="a.png")).to_be_visible()
    await page.get_by_text("Platform").first.click()
    await page.get_by_role("link", name="Health").click()
    await expect(page.get_by_role("heading", name="Health")).to_be_visible()
    await page.go_back()
    await expect(page.get_by_role("img", name="a.png")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("img", name="a.png")).to_be_visible()


async def test_text_files_go_into_the_message(show: Show, harper: Agent) -> None:
    page = await show()
    await page.locator("input[type=file]").set_input_files(
        FilePayload(name="a.csv", mimeType="text/csv", buffer=b"one,two\n1,2\n")
    )
    await expect(page.get_by_role("list", name="Text files of this message")).to_contain_text("a.csv")
    await say(page, "Sum it")
    assert (await harper.next()).message == "Sum it\n\na.csv:\n```csv\none,two\n1,2\n```"


async def test_images_of_an_answer_are_shown(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "Draw")
    await (await harper.next()).answer("", ("image/png", base64.b64encode(PNG).decode()))
    await expect(reply(page).get_by_role("img")).to_have_js_property("naturalWidth", 1)
    await expect(reply(page)).not_to_contain_text("without text")


async def test_code_is_copied_where_the_page_came_by_plain_http_from_another_host(lab: Lab, harper: Agent) -> None:
    async with a_browser("--host-resolver-rules=MAP pallas.test 127.0.0.1") as browser:
        page = await browser.new_page()
        base = lab.base.replace("127.0.0.1", "pallas.test")
        await page.goto(f"{base}/login?next=/workspaces/ws")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.keyboard.press("Enter")
        await say(page, "Code")
        await (await harper.next()).answer("```\nowl = 1\n```")
        assert await page.evaluate("navigator.clipboard === undefined")
        await page.locator(".copy-code").click()
        await expect(page.locator(".copy-code")).to_have_text("Copied")


async def test_what_agents_write_cannot_act_in_the_page(show: Show, harper: Agent) -> None:
    page = await show()
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: asked.append(dialog.message))
    await say(page, MEANT_HARM)
    work = await harper.next()
    await work.progress("<img src=x onerror=alert(1)>", 1)
    await expect(page.locator(".status-text")).to_have_text("<img src=x onerror=alert(1)>")
    await work.text(MEANT_HARM)
    await expect(reply(page).locator("pre")).to_be_visible()
    assert await _dangerous(page) == []
    await work.answer(MEANT_HARM)
    await expect(page.locator(".thinking")).to_have_count(0)
    assert await _dangerous(page) == []
    links: list[Any] = await reply(page).locator(".md a").evaluate_all("all => all.map(a => [a.text, a.href, a.rel])")
    assert [(text, url) for text, url, _ in links] == [
        ("a", ""),
        ("b", ""),
        ("c", ""),
        ("d", "https://evil.example/p.png"),
    ]
    assert {rel for _, _, rel in links} == {"noopener noreferrer"}
    assert all(url.startswith(page.url.partition("/workspaces")[0]) for url in asked if url.startswith("http"))


DANGEROUS = """root => [...root.querySelectorAll("*")].filter(each =>
    each.matches("script, iframe, form, object, .md img, .md svg, .md style, .md [style]")
    || [...each.attributes].some(one => one.name.startsWith("on"))).map(each => each.outerHTML)"""


async def _dangerous(page: Page) -> list[str]:
    """Elements in messages that could act."""
    return await page.locator(".messages").evaluate(DANGEROUS)


async def test_of_a_long_conversation_some_is_in_the_page_and_all_can_be_read(show: Show, lab: Lab) -> None:
    talk = await begin(lab.browser)
    async with lab.service.parts.engine.begin() as connection:
        rows = [row(talk.conversation, seq) for seq in range(1, 601)]
        await connection.execute(insert(ChatMessage), rows)
    page = await show(f"/workspaces/ws/conversations/{talk.conversation}")
    await expect(page.get_by_text("Message 600.")).to_be_in_viewport()
    transcript = page.get_by_role("region", name="Transcript")
    await transcript.evaluate(TO_THE_TOP)
    await expect(page.get_by_text("Message 1.", exact=True)).to_be_visible()
    assert await page.get_by_role("article").count() <= 200
    await page.get_by_role("button", name="To the newest message").click()
    await expect(page.get_by_text("Message 600.")).to_be_in_viewport()


def row(conversation: str, seq: int) -> dict[str, Any]:
    """An answered message, as it is stored."""
    fields = {"role": "user" if seq % 2 else "assistant", "content": f"Message {seq}.", "status": "answered"}
    return {"id": str(uuid.uuid4()), "conversation_id": conversation, "seq": seq, **fields}


pytestmark = pytest.mark.timeout(60)
