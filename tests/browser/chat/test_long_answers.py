"""Long answers: they appear slice by slice, nothing of them is lost, and the page can be used meanwhile."""

from typing import Any

import pytest
from playwright.async_api import Page, expect
from sqlalchemy import insert
from tests.browser.axe import violations
from tests.browser.chat.talking import reply, say
from tests.browser.chat.test_input import row
from tests.browser.pages import Show
from tests.integration.workspaces.chat.talk import begin
from tests.integration.workspaces.lab import Lab
from tests.workspaces_world.agent import Agent

from workspaces.tables import ChatMessage

pytestmark = pytest.mark.timeout(120)

SOME = """## A heading

Some *text* with `code`, [a link](https://a.example), and a [reference][far].

- one
- two
  - with another

---

```py
for each in range(3):

    print(each)
```

| a | b |
|---|--:|
| 1 | 2 |

> quoted
> twice

"""
"""Blocks of all kinds, shorter than a slice."""
FAR = "[far]: https://far.example\n"
PARAGRAPHS = "A line.\n\n" * 30_000
MIXED = SOME * 4_000
LONGEST_TASK_MS = 1_000
"""On a machine that nobody else uses a slice takes a twentieth of it; all of such a text at once takes seconds."""

WATCH = """() => {
    window.tasks = [0];
    const note = list => tasks.push(...list.getEntries().map(each => each.duration));
    new PerformanceObserver(note).observe({ type: "longtask" });
    window.sights = [];
    const look = () => {
        const shown = document.querySelector(".md");
        if (shown) sights.push(shown.childElementCount);
        requestAnimationFrame(look);
    };
    look();
}"""
DOUBLED = """() => {
    window.doubled = [];
    const look = () => {
        const texts = [...document.querySelectorAll(".md-part > div")].map(each => each.textContent.trim());
        const whole = texts.slice(0, -1);  // the last one may still grow
        if (new Set(whole).size < whole.length) doubled.push(whole.length);
        requestAnimationFrame(look);
    };
    look();
}"""
UNTIL = """text => new Promise(done => {
    const look = () => {
        const shown = document.querySelector(".md")?.lastElementChild.textContent.trimEnd() ?? "";
        shown.endsWith(text) ? done() : requestAnimationFrame(look);
    };
    look();
})"""
BLOCKS = """async ([text, pieces]) => {
    const { Rendering } = await import("/assets/text/markdown.js");
    const rendering = new Rendering(pieces ? "" : text);
    const size = pieces || text.length;
    for (let at = 0; at < text.length; at += size) {
        if (pieces) rendering.add(text.slice(at, at + size));
        while (rendering.step(!pieces)) {}
        rendering.shown();
    }
    while (rendering.step(true)) {}
    return rendering.parts.flat();
}"""
LEXED = """async ([text, piece]) => {
    const { Rendering } = await import("/assets/text/markdown.js");
    const { Marked } = await import("/assets/vendor/text.js");
    const { prototype } = new Marked().Lexer;
    const { lex } = prototype;
    let sum = 0;
    prototype.lex = function (src) { sum += src.length; return lex.call(this, src); };
    const rendering = new Rendering();
    for (let at = 0; at < text.length; at += piece) {
        rendering.add(text.slice(at, at + piece));
        while (rendering.step(false)) {}
        rendering.shown();
    }
    prototype.lex = lex;
    return sum;
}"""


async def opened(show: Show, lab: Lab, content: str) -> Page:
    """A conversation with this answer, just opened, and watched from the beginning."""
    talk = await begin(lab.browser)
    async with lab.service.parts.engine.begin() as connection:
        answer = {**row(talk.conversation, 2), "content": content}
        await connection.execute(insert(ChatMessage), [row(talk.conversation, 1), answer])
    page = await show("/settings")
    await page.add_init_script(f"({WATCH})()")
    await page.goto(f"{lab.base}/workspaces/ws/conversations/{talk.conversation}")
    return page


@pytest.mark.parametrize(("text", "blocks"), [(PARAGRAPHS, 30_000), (MIXED, 28_000)], ids=["paragraphs", "mixed"])
async def test_a_long_answer_appears_bit_by_bit(show: Show, lab: Lab, text: str, blocks: int) -> None:
    page = await opened(show, lab, f"{text}The end.")
    await page.get_by_role("textbox", name="Message").fill("typed meanwhile")
    await page.evaluate(UNTIL, "The end.")
    assert await page.locator(".md-part > div").count() == blocks + 1
    most: int = await page.evaluate(
        "Math.max(...[...document.querySelectorAll('.md-part')].map(part => part.childElementCount))"
    )
    assert most < 1_000
    sights: list[int] = await page.evaluate("sights")
    assert sights[0] < sights[-1] / 4
    assert max(await page.evaluate("tasks")) < LONGEST_TASK_MS
    await page.evaluate("getSelection().selectAllChildren(document.querySelector('.md'))")
    assert (await page.evaluate("String(getSelection())")).endswith("The end.")


async def test_an_answer_in_slices_is_the_same_and_has_no_barriers(show: Show, lab: Lab) -> None:
    page = await opened(show, lab, SOME * 30 + FAR)
    await expect(page.get_by_role("link", name="reference")).to_have_count(30)
    assert await page.locator(".md-part").count() > 1
    assert await violations(page) == []
    once = await _blocks(page, SOME + FAR)
    assert len(once) == 7
    assert await _blocks(page, SOME * 100 + FAR) == once * 100
    assert await _blocks(page, (SOME * 100 + FAR).replace("\n", "\r\n")) == once * 100
    referred = await _blocks(page, SOME)  # what is far away is not known while a text arrives
    for piece in (7, 1_000, 50_000):
        assert await _blocks(page, SOME * 100, piece) == referred * 100
        assert await _blocks(page, (SOME * 100).replace("\n", "\r\n"), piece) == referred * 100
    assert await _blocks(page, "-" * 60) == ["<hr>\n"]


async def test_a_block_that_is_too_long_goes_on_in_the_next_one(show: Show) -> None:
    page = await show()
    lines = [f"    x{number} = {number}\n" for number in range(20_000)]
    code = await _blocks(page, f"```py\n{''.join(lines)}```\n")
    assert 2 < len(code) < 10
    assert all(each.startswith('<div class="code">') for each in code)
    texts: list[str] = await page.evaluate(
        "all => all.map(html => new DOMParser().parseFromString(html, 'text/html').querySelector('code').textContent)",
        code,
    )
    assert "\n".join(texts) == "".join(lines).rstrip("\n")
    table = await _blocks(page, "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 5_000)
    assert all(each.count("<th>") == 2 for each in table)
    assert sum(each.count("<td>1</td>") for each in table) == 5_000
    items = await _blocks(page, "".join(f"{number}. item\n      - inner\n" for number in range(1, 2_001)))
    assert sum(each.count("inner") for each in items) == 2_000
    assert all(each.startswith("<ol") for each in items)
    assert "".join(await _blocks(page, "🦉" * 10_000)).count("🦉") == 10_000


async def test_a_line_that_is_too_long_is_cut(show: Show) -> None:
    page = await show()
    code = await _blocks(page, f"```\n{'z' * 150_000}\n```\nbehind")
    assert sum(each.count("z") for each in code) == 150_000
    assert len(code) < 10
    row = f"| {'z' * 50_000} | 2 |\n"
    table = await _blocks(page, f"| a | b |\n|---|---|\n{row}")
    assert "".join(table).count("z") == 50_000
    assert len(table) < 20


async def test_code_in_an_item_is_not_cut(show: Show) -> None:
    page = await show()
    lines = "".join(f"   line {number}\n" for number in range(1_000))
    [first, behind] = await _blocks(page, f"1. Create it:\n   ```py\n{lines}   ```\n2. Run it\n\nbehind")
    assert first.count('<div class="code">') == 1
    assert "Run it" in first.rpartition("</code>")[2]
    assert behind == "<p>behind</p>\n"


async def test_a_text_is_shown_once_while_it_arrives(show: Show, harper: Agent) -> None:
    page = await show()
    await page.evaluate(DOUBLED)
    await say(page, "Tell me")
    work = await harper.next()
    text = "".join(f"Paragraph {number} with a few words more.\n\n" for number in range(400))
    for at in range(0, len(text), 60):
        await work.text(text[at : at + 60])
    await work.text("Almost.")
    await page.evaluate(UNTIL, "Almost.")
    await work.answer(f"{text}The end.")
    await page.evaluate(UNTIL, "The end.")
    assert await page.evaluate("doubled") == []


@pytest.mark.parametrize(
    "text", ["A *line*.\n\n", "- an item\n", "```\ncode\n", "word "], ids=["paragraphs", "list", "code", "line"]
)
async def test_text_that_arrives_is_read_a_bounded_number_of_times(show: Show, text: str) -> None:
    page = await show()
    once, twice = [await page.evaluate(LEXED, [(text * 40_000)[:size], 1_000]) for size in (100_000, 200_000)]
    assert twice < 2.6 * once


async def test_a_long_answer_stays_in_the_page_when_it_ends(show: Show, harper: Agent) -> None:
    page = await show()
    await page.evaluate(WATCH)
    await say(page, "Tell me")
    work = await harper.next()
    for _ in range(40):
        await work.text(SOME * 10)
    await work.text("Almost.")
    await page.evaluate(UNTIL, "Almost.")
    parts = await page.locator(".md-part").count()
    await page.evaluate("sights.length = 0")
    await work.answer(f"{SOME * 400}The end.")
    await page.evaluate(UNTIL, "The end.")
    assert min(await page.evaluate("sights")) > parts / 2
    assert max(await page.evaluate("tasks")) < LONGEST_TASK_MS
    await expect(reply(page)).to_contain_text("The end.")


async def _blocks(page: Page, text: str, pieces: int = 0) -> list[str]:
    """The blocks of a text as HTML; of one that arrives in pieces of so many characters, if there are any."""
    found: list[Any] = await page.evaluate(BLOCKS, [text, pieces])
    return found
