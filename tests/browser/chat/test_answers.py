"""Messages and answers in a browser and on paper, with an agent whose work the test decides."""

import asyncio
from urllib.parse import urlsplit

import pytest
from playwright.async_api import expect
from tests.browser.axe import violations
from tests.browser.chat.talking import reply, say, status
from tests.browser.pages import Show
from tests.requirements import requirement
from tests.workspaces_world.agent import Agent


@requirement("P-5.18", "P-5.19", "P-5.20")
async def test_one_status_line_is_replaced_ticks_and_is_cleared_by_the_answer(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "What is new?")
    work = await harper.next()
    await expect(page.get_by_role("article", name="You")).to_have_text("What is new?")
    await work.progress("Asking research", 1)
    await expect(status(page)).to_have_text("Asking research")
    await expect(page.locator(".thinking .spinner")).to_be_visible()
    await expect(page.locator(".tick.shown")).to_have_count(0)
    await work.progress("Research has answered", 2, 2)
    await expect(status(page)).to_have_text("Research has answered")
    await expect(page.locator(".tick.shown")).to_be_visible()
    await expect(page.locator(".tick.shown")).to_have_count(0)
    assert await status(page).get_attribute("aria-live") == "polite"
    await work.answer("Nothing **new**.")
    await expect(reply(page).locator("strong").last).to_have_text("new")
    await expect(page.get_by_role("status").get_by_text("Harper: Nothing new.", exact=True)).to_have_count(1)
    await expect(page.locator(".thinking")).to_have_count(0)
    await expect(page.get_by_role("heading", level=1)).to_have_text("What is new?")
    await expect(page.get_by_role("link", name="What is new?")).to_have_attribute("aria-current", "page")
    await say(page, "And now?")
    await (await harper.next(2)).answer(" \n")
    await expect(reply(page)).to_contain_text("The agent answered without text.")


async def test_formulas_are_shown_as_written_and_footnotes_keep_their_text(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "Rates")
    text = "It is $a*b*c_i$, for $5 and $10.\n\n$$\nx_1 *y* z\n$$\n\n"
    text += "A note[^1], another[^b].\n\n[^1]: Smith2020\n[^b]: See **this**."
    await (await harper.next()).answer(text)
    await expect(reply(page).locator(".md code")).to_have_text(["a*b*c_i", "x_1 *y* z"])
    await expect(reply(page)).to_contain_text("for $5 and $10.")
    await expect(reply(page).locator(".md sup")).to_have_text(["1", "b", "1", "b"])
    await expect(reply(page)).to_contain_text("1 Smith2020")
    await expect(reply(page).locator(".md strong")).to_have_text("this")


@pytest.mark.parametrize("hard", ["> " * 20_000, f"a{' ' * 1_000_000}b"], ids=["deep", "wide"])
async def test_text_that_is_too_hard_for_markdown_is_shown_as_it_is(show: Show, harper: Agent, hard: str) -> None:
    page = await show()
    await say(page, "Quote")
    await (await harper.next()).answer(f"{hard}the end")
    await expect(reply(page)).to_contain_text("the end")
    await page.reload()
    await expect(reply(page)).to_contain_text("the end")


async def test_text_is_shown_as_it_arrives_and_a_reload_loses_nothing(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "Tell me")
    work = await harper.next()
    await work.text("# Owls\n\n- see at night\n- hear ")
    await expect(reply(page).get_by_role("listitem")).to_have_count(2)
    await work.text("well 🦉\n\nSo:\n\n```py\nowl =")
    await expect(reply(page).locator("pre")).to_have_text("owl =")
    await page.reload()
    await expect(reply(page).locator("pre")).to_have_text("owl =")
    await work.text(" 1\n```\n")
    await expect(reply(page).locator("pre")).to_have_text("owl = 1")
    await work.answer("# Owls\n\nThat is all.")
    await expect(reply(page).locator("p")).to_have_text("That is all.")
    assert harper.executed == ["Tell me"]


async def test_an_answer_can_be_cancelled_and_tried_again(show: Show, harper: Agent) -> None:
    page = await show(allowed=("409",))
    await say(page, "Slowly")
    work = await harper.next()
    box = page.get_by_role("textbox", name="Message")
    await page.get_by_role("button", name="Cancel the answer").press("Enter")
    await expect(reply(page)).to_contain_text("Cancelled")
    await expect(box).to_be_focused()
    await work.left.wait()
    await page.get_by_role("button", name="Retry").press("Enter")
    await expect(page.get_by_role("dialog")).to_contain_text("A retry may do that once more.")
    await page.get_by_role("dialog").get_by_role("button", name="Retry anyway").press("Enter")
    work = await harper.next(2)
    await expect(box).to_be_focused()
    await work.fail("The model is overloaded.", "overloaded")
    failure = reply(page).get_by_role("group", name="Why there is no answer")
    await expect(failure).to_contain_text("The model is overloaded.")
    await expect(failure.get_by_text("overloaded", exact=True)).to_be_hidden()
    await failure.get_by_text("Details").click()
    await expect(failure.get_by_text("overloaded", exact=True)).to_be_visible()
    await expect(page.get_by_role("status").get_by_text("failed: The model is overloaded.")).to_have_count(1)
    await page.get_by_role("button", name="Retry").click()
    await (await harper.next(3)).answer("Now.")
    await expect(reply(page)).to_contain_text("Now.")
    await expect(page.get_by_role("article")).to_have_count(2)


async def test_the_text_so_far_of_an_answer_that_is_cancelled_or_fails_stays(show: Show, harper: Agent) -> None:
    page = await show(allowed=("409",))
    await say(page, "Tell me")
    await (await harper.next()).text("Owls **see")
    await expect(reply(page)).to_contain_text("Owls **see")
    await reply(page).evaluate("""article => {
        const look = () => (window.gone ||= !article.textContent.includes("Owls"));
        new MutationObserver(look).observe(article, { subtree: true, childList: true, characterData: true });
    }""")
    await page.get_by_role("button", name="Cancel the answer").click()
    await expect(reply(page)).to_contain_text("Cancelled")
    await expect(page.get_by_role("button", name="Copy the answer")).to_be_attached()
    assert not await page.evaluate("window.gone")
    await page.reload()
    await expect(reply(page)).to_contain_text("Owls **see")
    await expect(reply(page)).to_contain_text("Cancelled")
    await page.get_by_role("button", name="Retry").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry anyway").click()
    work = await harper.next(2)
    await expect(reply(page)).not_to_contain_text("Owls")
    await work.text("Owls hear")
    await expect(reply(page)).to_contain_text("Owls hear")
    await work.fail("The model is overloaded.")
    for _ in range(2):
        await expect(reply(page).get_by_role("group", name="Why there is no answer")).to_be_visible()
        await expect(reply(page)).to_contain_text("Owls hear")
        await page.reload()


async def test_a_question_becomes_a_form_that_is_checked(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "Book it")
    work = await harper.next()
    asking = asyncio.create_task(work.ask("Where to?", "city", "street", breakfast={"type": "boolean"}))
    form = page.get_by_role("form", name="Where to?")
    await form.get_by_label("city").fill("Athens")
    await page.locator("a.new").click()
    await page.go_back()
    await expect(form.get_by_label("city")).to_have_value("Athens")
    await form.get_by_role("button", name="Answer").click()
    await expect(form.get_by_role("alert")).to_have_text("This is needed.")
    await expect(form.get_by_label("street")).to_be_focused()
    await form.get_by_label("street").fill("Acropolis")
    await form.get_by_label("street").press("Enter")
    assert (await asking)["content"] == {"city": "Athens", "street": "Acropolis", "breakfast": False}
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    await work.answer("Booked.")
    await expect(reply(page)).to_contain_text("Booked.")
    await expect(form).to_have_count(0)


async def test_of_several_choices_none_is_an_answer_unless_the_schema_wants_some(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "Book it")
    work = await harper.next()
    items = {"type": "string", "enum": ["wine", "owl"]}
    extras, days = {"type": "array", "items": items}, {"type": "array", "items": items, "minItems": 1}
    asking = asyncio.create_task(work.ask("What else?", extras=extras, days=days))
    form = page.get_by_role("form", name="What else?")
    await expect(form.get_by_role("group", name="extras")).to_contain_text("You may choose none.")
    await form.get_by_role("button", name="Answer").click()
    await expect(form.get_by_role("alert")).to_have_text("Choose at least 1.")
    await form.get_by_role("group", name="days").get_by_label("owl").check()
    assert await violations(page) == []
    await form.get_by_role("button", name="Answer").click()
    assert (await asking)["content"] == {"extras": [], "days": ["owl"]}


async def test_two_tabs_show_the_same(show: Show, harper: Agent) -> None:
    first = await show()
    await say(first, "Hello")
    await expect(first.get_by_role("heading", level=1)).to_have_text("Hello")
    second = await show(urlsplit(first.url).path)
    await (await harper.next()).answer("Good day.")
    for page in (first, second):
        await expect(reply(page)).to_contain_text("Good day.")
    await say(second, "Bye")
    await expect(first.get_by_role("article", name="You")).to_have_text(["Hello", "Bye"])
    await second.get_by_role("button", name="More for Hello").last.click()
    await second.get_by_role("menuitem", name="Delete").click()
    await second.get_by_role("dialog").get_by_role("button", name="Delete").click()
    for page in (first, second):
        await expect(page.get_by_role("heading", level=1)).to_have_text("New conversation")
        await expect(page.get_by_text("No conversations yet.")).to_be_visible()


async def test_all_messages_are_printed_and_nothing_around_them(show: Show, harper: Agent) -> None:
    page = await show()
    await say(page, "Tell me")
    await (await harper.next()).answer("A line.\n\n" * 200)
    await expect(reply(page)).to_contain_text("A line.")
    await page.emulate_media(media="print")
    assert await page.evaluate("document.documentElement.scrollHeight") > 200 * 24
    for gone in (page.get_by_role("navigation"), page.get_by_role("textbox", name="Message")):
        await expect(gone).to_be_hidden()


pytestmark = pytest.mark.timeout(60)
