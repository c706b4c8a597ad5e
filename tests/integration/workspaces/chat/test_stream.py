"""The event stream of a conversation: nothing missing, nothing double."""

import asyncio

import pytest
from sqlalchemy import update
from tests.integration.workspaces.chat.talk import Talk, begin, reading_events
from tests.integration.workspaces.lab import API, Lab
from tests.waiting import soon
from tests.workspaces_world.agent import Agent

from pallas_postgres.engine import writing
from workspaces.answers import ConversationView, MessageView
from workspaces.chat import reading
from workspaces.chat.locking import lock_conversation
from workspaces.tables import REVISIONS, ChatMessage


async def test_progress_is_shown_as_it_comes_and_as_it_was_for_those_who_come_later(talk: Talk, harper: Agent) -> None:
    async with talk.begun(harper) as (stream, sent, work):
        await work.progress("research/search: started", 0, None)
        first = (await stream.until("progress", message="research/search: started")).data
        assert (first["message_id"], first["progress"], first["total"]) == (sent["reply_id"], 0, None)
        await work.progress("research/search: completed", 1, 1)
        await stream.until("progress", progress=1, total=1)
        async with talk.following() as late:
            await late.until("progress", message="research/search: completed")
        await work.answer("done")
        await stream.until("message", id=sent["reply_id"], status="answered")


async def test_text_grows_and_comes_whole_to_those_who_come_later(talk: Talk, harper: Agent) -> None:
    async with talk.begun(harper) as (stream, sent, work):
        for piece in ("Grüße ", "👩‍🚀 ", "aus " * 1000):
            await work.text(piece)
        whole = "Grüße 👩‍🚀 " + "aus " * 1000
        await stream.text(sent["reply_id"], whole)
        async with talk.following() as late:
            await late.text(sent["reply_id"], whole)
        await work.restart()
        await work.text("Neu")
        await stream.text(sent["reply_id"], "Neu")
        await work.answer("Neu.")
        await stream.until("message", id=sent["reply_id"], content="Neu.")


async def test_a_stream_resumes_without_gaps_and_doubles(talk: Talk, harper: Agent) -> None:
    async with talk.following() as stream:
        sent = await talk.send("one")
        asked = (await stream.until("message", id=sent["message_id"])).data
        running = await stream.until("message", id=sent["reply_id"], status="sending")
        assert running.id == str(running.data["revision"])
        assert asked["revision"] < running.data["revision"]
    await (await harper.next()).answer("1")
    async with talk.following(last=running.id) as stream:
        await stream.until("message", id=sent["reply_id"], status="answered")
        assert [one["id"] for one in stream.of("message")] == [sent["reply_id"]]
        last = stream.of("message")[-1]["revision"]
    async with talk.following(after=0, last=str(last)) as stream:
        again = await talk.send("two")
        await stream.until("message", id=again["reply_id"])
        assert [one["id"] for one in stream.of("message")] == [again["message_id"], again["reply_id"]]
    async with talk.following(after=0, last="no number") as stream:
        await stream.until("message", id=again["reply_id"])
        assert len(stream.of("message")) == 4


async def test_without_a_revision_only_what_is_new_is_sent(talk: Talk, harper: Agent) -> None:
    sent = await talk.send("one")
    async with talk.following() as stream:
        ready = stream.events.items[0]
        page = await talk.page()
        assert ready.kind == "ready"
        assert ready.data == {"revision": max(one["revision"] for one in page["messages"]), "account": "admin"}
        await (await harper.next()).answer("1")
        await stream.until("message", id=sent["reply_id"])
        assert [one["status"] for one in stream.of("message")] == ["answered"]


async def test_revisions_are_in_the_order_of_commits(lab: Lab, talk: Talk, harper: Agent) -> None:
    """A transaction that has taken a revision and is slow to commit holds up the next change of its conversation."""
    sent = await talk.send()
    engine = lab.service.parts.engine
    async with talk.following() as stream:
        async with writing(engine) as session:
            await lock_conversation(session, talk.conversation)
            early = {"revision": REVISIONS.next_value(), "content": "changed"}
            await session.execute(update(ChatMessage).where(ChatMessage.id == sent["message_id"]).values(early))
            cancelling = asyncio.create_task(talk.post(sent["reply_id"], "cancel"))
            other = await begin(talk.http)
            assert (await other.try_send()).status_code == 202
            assert not cancelling.done()
        assert (await soon(cancelling)).status_code == 200
        await stream.until("message", id=sent["reply_id"], status="cancelled")
        changed = [(one["id"], one["status"]) for one in stream.of("message")]
        assert changed == [(sent["message_id"], "answered"), (sent["reply_id"], "cancelled")]


async def test_a_stream_takes_what_it_is_told_only_if_it_has_missed_nothing(
    lab: Lab, talk: Talk, harper: Agent
) -> None:
    async with talk.following() as stream:
        sent = await talk.send()
        await (await harper.next()).answer("stored")
        await stream.until("message", id=sent["reply_id"], status="answered")
        shown = {one["id"]: one for one in stream.of("message")}
        assert list(shown.values()) == (await talk.page())["messages"]
        reply = MessageView.model_validate(shown[sent["reply_id"]])
        told, newest = len(stream.of("message")), reply.revision

        def tell(content: str, revision: int, behind: int | None) -> None:
            message = reply.model_copy(update={"content": content, "revision": revision})
            lab.service.parts.hub.tell_here(reading.Changed((message,), revision, behind=behind).told())

        tell("behind one that was missed", newest + 2, newest + 1)
        tell("behind an unknown one", newest + 3, None)
        tell("an old one", newest, newest - 1)
        tell("the next one", newest + 4, newest)
        await stream.until("message", content="the next one")
        assert [one["content"] for one in stream.of("message")[told:]] == ["the next one"]


async def test_who_has_missed_too_much_is_told_to_load_the_page(
    talk: Talk, harper: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_CHANGED", 1)
    await talk.send("one")
    async with talk.following(after=0) as stream:
        await stream.until("resync")
        await (await harper.next()).answer("1")
        await stream.until("message", status="answered", role="assistant")
        assert len(stream.of("message")) == 1


async def test_other_tabs_hear_of_conversations(lab: Lab, talk: Talk, harper: Agent) -> None:
    async with reading_events(lab.browser, f"{API}/events", {}) as stream:
        assert stream.events.items[0].data == {"revision": 0, "account": "admin"}
        await talk.send("A question")
        await stream.until("conversation", id=talk.conversation, title="A question", answering=True)
        await (await harper.next()).answer("1")
        told = await stream.until("conversation", title="A question", answering=False)
        stored = (await talk.page())["conversation"]
        assert ConversationView.model_validate(told.data) == ConversationView.model_validate(stored)
        await talk.http.patch(f"{API}/conversations/{talk.conversation}", json={"title": "Another title"})
        await stream.until("conversation", title="Another title")
        await talk.http.delete(f"{API}/conversations/{talk.conversation}")
        await stream.until("conversation_deleted", id=talk.conversation)
        assert "message" not in stream.kinds()


async def test_deleting_a_conversation_ends_the_call(talk: Talk, harper: Agent) -> None:
    await talk.send()
    work = await harper.next()
    assert (await talk.http.delete(f"{API}/conversations/{talk.conversation}")).status_code == 204
    await soon(work.left.wait())


async def test_nobody_follows_without_a_login(lab: Lab, talk: Talk) -> None:
    for path in (f"/events?conversation={talk.conversation}", f"/conversations/{talk.conversation}/events", "/events"):
        assert (await lab.stranger.get(API + path)).status_code == 401


async def test_open_streams_are_counted(lab: Lab, talk: Talk) -> None:
    before = lab.measured("pallas_workspaces_event_streams")
    async with talk.following():
        assert lab.measured("pallas_workspaces_event_streams") == before + 1
