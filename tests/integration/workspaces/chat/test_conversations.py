"""Conversations: list, create, rename, delete."""

import pytest
from tests.integration.workspaces.chat.talk import Talk, attach, begin
from tests.integration.workspaces.lab import API, Lab
from tests.workspaces_world.agent import Agent


async def test_pages_of_conversations_have_each_of_them_once(lab: Lab, talk: Talk) -> None:
    made = [talk.conversation, *[(await begin(lab.browser, title=f"Talk {n}")).conversation for n in range(6)]]
    found, before = list[str](), None
    while True:
        query = {"limit": 3} | ({"before": before} if before else {})
        page = (await lab.browser.get(f"{API}/workspaces/ws/conversations", params=query)).json()
        found += [one["id"] for one in page["conversations"]]
        if (before := page["next"]) is None:
            break
    assert found == made[::-1]


async def test_the_latest_conversation_is_the_first(talk: Talk, harper: Agent) -> None:
    await begin(talk.http)
    await talk.send()
    listed = (await talk.http.get(f"{API}/workspaces/ws/conversations")).json()["conversations"]
    assert [one["answering"] for one in listed] == [True, False]
    assert listed[0]["id"] == talk.conversation


NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize("before", ["x", f"2026-01-01T00:00:00_{NOBODY}", "2026-01-01T00:00:00Z_1"])
async def test_a_cursor_that_is_none_is_refused(lab: Lab, talk: Talk, before: str) -> None:
    answer = await lab.browser.get(f"{API}/workspaces/ws/conversations", params={"before": before})
    assert (answer.status_code, answer.json()["field"]) == (422, "before")


async def test_the_same_id_is_the_same_conversation(lab: Lab, talk: Talk) -> None:
    again = await begin(lab.browser, id=talk.conversation, title="ignored")
    assert (await again.page())["conversation"]["title"] == ""
    made = await lab.command_line.post(f"{API}/workspaces", json={"name": "Other"})
    other = await lab.browser.post(
        f"{API}/workspaces/{made.json()['id']}/conversations", json={"id": talk.conversation}
    )
    assert (other.status_code, other.json()["code"]) == (409, "id_taken")


async def test_a_title_of_ones_own_stays(lab: Lab, harper: Agent) -> None:
    await attach(lab.service.parts.engine, harper)
    talk = await begin(lab.browser, title="  Mine  ")
    await talk.send("Something else")
    assert (await talk.page())["conversation"]["title"] == "Mine"


@pytest.mark.parametrize("title", ["", "  ", "x" * 201, None])
async def test_a_title_has_to_be_one(talk: Talk, title: str | None) -> None:
    answer = await talk.http.patch(f"{API}/conversations/{talk.conversation}", json={"title": title})
    assert (answer.status_code, answer.json()["field"]) == (422, "title")


async def test_pages_of_messages_go_back_to_the_first(talk: Talk, harper: Agent) -> None:
    async with talk.following() as stream:
        for number in range(1, 4):
            sent = await talk.send(f"{number}")
            await (await harper.next(number)).answer("ok")
            await stream.until("message", id=sent["reply_id"], status="answered")
    last = await talk.page(limit=4)
    assert [one["seq"] for one in last["messages"]] == [3, 4, 5, 6]
    first = await talk.page(limit=4, before=last["before"])
    assert [one["seq"] for one in first["messages"]] == [1, 2]
    assert first["before"] is None


async def test_a_branch_has_what_came_before_and_goes_with_its_conversation(talk: Talk, harper: Agent) -> None:
    async with talk.following() as stream:
        first = await talk.send("# One")
        await (await harper.next()).answer("First.")
        await stream.until("message", id=first["reply_id"], status="answered")
        second = await talk.send("Two")
        await (await harper.next(2)).answer("Second.")
        await stream.until("message", id=second["reply_id"], status="answered")
    made = await talk.post(second["message_id"], "branch", agent_server_id="pallas-harper", text="Three", id=NOBODY)
    assert (made.status_code, made.json()["conversation_id"]) == (202, NOBODY)
    branch = Talk(talk.http, NOBODY)
    async with branch.following() as stream:
        await (await harper.next(3)).answer("Third, and zebras.")
        await stream.until("message", id=made.json()["reply_id"], status="answered")
    page = await branch.page()
    assert [one["content"] for one in page["messages"][:3]] == ["# One", "First.", "Three"]
    assert [(one["id"], one["branch_seq"]) for one in page["branches"]] == [
        (talk.conversation, None),
        (branch.conversation, 3),
    ]
    listed = (await talk.http.get(f"{API}/workspaces/ws/conversations")).json()["conversations"]
    assert [(one["id"], one["title"]) for one in listed] == [(branch.conversation, "One")]
    for words, found in {"ZEBRA": branch, "Second": talk, "one": branch}.items():
        answer = (await talk.http.get(f"{API}/search", params={"words": words})).json()["conversations"]
        assert [(one["id"], words.lower() in one["excerpt"].lower()) for one in answer] == [(found.conversation, True)]
    await talk.http.patch(f"{API}/conversations/{branch.conversation}", json={"title": "Both"})
    assert (await talk.page())["conversation"]["title"] == "Both"
    unknown = await talk.post(talk.conversation, "branch", agent_server_id="pallas-harper")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_message")
    assert (await talk.http.delete(f"{API}/conversations/{branch.conversation}")).status_code == 204
    assert (await talk.http.get(f"{API}/conversations/{talk.conversation}")).status_code == 404


async def test_what_happens_to_a_conversation_happens_to_no_other_one(lab: Lab, talk: Talk) -> None:
    other = await begin(lab.browser, title="Other")
    renamed = await lab.browser.patch(f"{API}/conversations/{talk.conversation}", json={"title": "Mine"})
    assert renamed.json()["title"] == "Mine"
    assert (await other.page())["conversation"]["title"] == "Other"
    assert (await lab.browser.delete(f"{API}/conversations/{talk.conversation}")).status_code == 204
    listed = (await lab.browser.get(f"{API}/workspaces/ws/conversations")).json()["conversations"]
    assert [(one["id"], one["title"]) for one in listed] == [(other.conversation, "Other")]
