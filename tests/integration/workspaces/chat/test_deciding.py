"""What the person decides about replies: cancel, retry, answer a question."""

import asyncio
from typing import Any

import pytest
from tests.integration.workspaces.chat.talk import Talk, attach
from tests.integration.workspaces.lab import API, Lab
from tests.waiting import soon
from tests.workspaces_world.agent import Agent, an_agent

from pallas_postgres.engine import reading
from workspaces.chat.concluding import Concluding
from workspaces.chat.model import Claim
from workspaces.tables import ChatMessage


async def test_a_cancel_ends_the_reply_at_once_and_the_call_soon(talk: Talk, harper: Agent) -> None:
    async with talk.begun(harper) as (stream, sent, work):
        cancelled = await talk.post(sent["reply_id"], "cancel")
        assert cancelled.json()["status"] == "cancelled"
        await stream.until("message", id=sent["reply_id"], status="cancelled")
        await soon(work.cancelled.wait())
        await work.answer("too late")
    again = await talk.post(sent["reply_id"], "cancel")
    assert (again.status_code, again.json()["code"]) == (409, "not_running")
    assert (await talk.reply(sent["reply_id"]))["content"] == ""


async def test_what_a_cancelled_reply_has_said_stays_until_it_is_tried_again(talk: Talk, harper: Agent) -> None:
    async with talk.following() as stream:
        sent = await talk.send()
        await (await harper.next()).text("Owls see")
        await stream.text(sent["reply_id"], "Owls see")
        assert (await talk.post(sent["reply_id"], "cancel")).json()["status"] == "cancelled"
        kept = (await stream.until("message", id=sent["reply_id"], status="cancelled", content="Owls see")).data
        assert await talk.reply(sent["reply_id"]) == kept
        await talk.post(sent["reply_id"], "retry", confirmed=True)
        assert (await stream.until("message", id=sent["reply_id"], attempt=2)).data["content"] == ""
        assert (await talk.post(sent["reply_id"], "cancel")).json()["content"] == ""
        await stream.until("message", id=sent["reply_id"], status="cancelled", attempt=2)
        await talk.send("And now?")
        assert "history" not in (await harper.next(3)).arguments
    assert (await talk.reply(sent["reply_id"]))["content"] == ""


async def test_text_that_comes_late_is_kept_only_where_nothing_is(lab: Lab, talk: Talk, harper: Agent) -> None:
    engine, hub = lab.service.parts.engine, lab.service.parts.hub
    concluding, reply_id = Concluding(engine, hub), (await talk.send())["reply_id"]

    async def claim() -> Claim:
        async with reading(engine) as session:
            return Claim.of(await session.get_one(ChatMessage, reply_id))

    async def content() -> str:
        return (await talk.reply(reply_id))["content"]

    first = await claim()
    await concluding.keep(first, "while it runs")
    assert await content() == ""
    await talk.post(reply_id, "cancel")
    other = await talk.send("another question")
    await concluding.keep(first, "while the next one runs")
    assert await content() == ""
    await talk.post(other["reply_id"], "cancel")
    await concluding.keep(first, "kept")
    await concluding.keep(first, "kept again")
    assert await content() == "kept"
    await talk.post(reply_id, "retry", confirmed=True)
    await talk.post(reply_id, "cancel")
    await concluding.keep(first, "of the first attempt")
    assert await content() == ""
    async with talk.following() as stream:
        await talk.post(reply_id, "retry", confirmed=True)
        await (await harper.next(4)).answer("")
        await stream.until("message", id=reply_id, status="answered")
    await concluding.keep(await claim(), "of an answered one")
    assert await content() == ""


async def test_the_call_ends_when_its_conversation_is_deleted(talk: Talk, harper: Agent) -> None:
    await talk.send()
    work = await harper.next()
    assert (await talk.http.delete(f"{API}/conversations/{talk.conversation}")).status_code == 204
    await soon(work.cancelled.wait())


async def test_a_failed_reply_says_why_and_is_tried_again_under_another_key(talk: Talk, harper: Agent) -> None:
    async with talk.begun(harper) as (stream, sent, work):
        await work.text("I ask ")
        await work.fail("Argos is away.", "tool_error")
        failed = (await stream.until("message", id=sent["reply_id"], status="failed")).data
        assert (failed["error_code"], failed["error"], failed["content"]) == ("tool_error", "Argos is away.", "I ask ")
        assert (await talk.post(sent["reply_id"], "retry")).json() == sent
        assert (await stream.until("message", id=sent["reply_id"], attempt=2)).data["content"] == ""
        work = await harper.next(2)
        assert work.key not in (None, sent["message_id"])
        await work.answer("Now it works.")
        answered = (await stream.until("message", id=sent["reply_id"], status="answered")).data
        assert (answered["error"], answered["attempt"]) == (None, 2)
    refused = await talk.post(sent["reply_id"], "retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_failed")


async def test_why_an_agent_failed_is_told_without_codes_and_ids(talk: Talk, harper: Agent) -> None:
    said = {
        "model_failed: the model 'x' failed: Overloaded": "The model 'x' failed: Overloaded.",
        "model_failed: ": "The agent failed and did not say why.",
        "Just: so!": "Just: so!",
    }
    for number, (text, shown) in enumerate(said.items(), 1):
        async with talk.following() as stream:
            sent = await talk.send()
            await (await harper.next(number)).fail(text, "model_failed")
            failed = (await stream.until("message", id=sent["reply_id"], status="failed")).data
            assert (failed["error_code"], failed["error"]) == ("model_failed", shown)


@pytest.mark.parametrize(
    ("code", "asks"),
    [("worker_lost", True), ("turn_timeout", True), ("internal", True), ("tool_error", False), ("busy_model", False)],
)
async def test_a_retry_whose_agent_may_have_had_an_effect_is_asked_for_first(
    talk: Talk, harper: Agent, code: str, *, asks: bool
) -> None:
    async with talk.following() as stream:
        sent = await talk.send()
        await (await harper.next()).fail("Gone.", code)
        await stream.until("message", id=sent["reply_id"], status="failed")
        if asks:
            refused = await talk.post(sent["reply_id"], "retry")
            assert (refused.status_code, refused.json()["code"]) == (409, "needs_confirmation")
            assert len(harper.executed) == 1
        assert (await talk.post(sent["reply_id"], "retry", confirmed=asks)).status_code == 202
        await (await harper.next(2)).answer("done")
        await stream.until("message", id=sent["reply_id"], status="answered")


async def test_the_same_is_asked_again_only_by_confirmation_and_not_while_it_is_answered(
    talk: Talk, harper: Agent
) -> None:
    """Without a broker nobody knows what the agent has done."""

    async def asked_again(sent: dict[str, Any], **body: Any) -> set[tuple[int, str]]:
        ids = sent["message_id"], sent["reply_id"]
        answers = [await talk.post(one, "branch", agent_server_id="pallas-harper", **body) for one in ids]
        return {(answer.status_code, answer.json().get("code", "")) for answer in answers}

    async with talk.begun(harper) as (stream, sent, work):
        assert await asked_again(sent) == {(409, "answering")}
        await work.answer("done")
        await stream.until("message", id=sent["reply_id"], status="answered")
        assert await asked_again(sent) == {(409, "needs_confirmation")}
        assert await asked_again(sent, text=" ") == {(422, "invalid")}
        lost = await talk.send()
        await (await harper.next(2)).fail("Gone.", "connection_lost")
        await stream.until("message", id=lost["reply_id"], status="failed")
        assert await asked_again(lost) == {(409, "needs_confirmation")}
        assert len(harper.executed) == 2
        assert await asked_again(sent, confirmed=True) == {(202, "")}
        await harper.next(4)


async def test_another_agent_may_try_again(lab: Lab, talk: Talk, harper: Agent) -> None:
    async with an_agent("scribe") as scribe, talk.following() as stream:
        other = await attach(lab.service.parts.engine, scribe, team="Gyges")
        sent = await talk.send()
        await (await harper.next()).fail("no")
        await stream.until("message", id=sent["reply_id"], status="failed")
        refused = await talk.post(sent["reply_id"], "retry", agent_instance_id=other)
        assert refused.status_code == 422
        again = await talk.post(sent["reply_id"], "retry", agent_server_id="pallas-scribe", agent_instance_id=other)
        assert again.status_code == 202
        await (await scribe.next()).answer("yes")
        reply = (await stream.until("message", id=sent["reply_id"], status="answered")).data
        assert (reply["agent_title"], reply["content"]) == ("Scribe", "yes")


async def test_what_failed_is_left_out_of_the_history(talk: Talk, harper: Agent) -> None:
    async with talk.following() as stream:
        for number, text in enumerate(("one", "two", "three"), start=1):
            sent = await talk.send(text)
            work = await harper.next(number)
            await (work.fail("no") if text == "two" else work.answer(f"{text}!"))
            await stream.until("message", id=sent["reply_id"], status="failed" if text == "two" else "answered")
        sent = await talk.send("four")
        history = (await harper.next(4)).arguments["history"]
        assert [one["content"] for one in history] == ["one", "one!", "three", "three!"]
        assert (await talk.reply(sent["reply_id"]))["remembers_from"] == 1


async def test_a_context_that_is_too_long_is_halved_once(talk: Talk, harper: Agent) -> None:
    async with talk.following() as stream:
        for number in (1, 2):
            sent = await talk.send(f"question {number}")
            await (await harper.next(number)).answer(f"answer {number}")
            await stream.until("message", id=sent["reply_id"], status="answered")
        sent = await talk.send("question 3")
        long = await harper.next(3)
        assert len(long.arguments["history"]) == 4
        await long.text("beginn")
        await long.fail("too long", "context_overflow")
        short = await harper.next(4)
        assert [one["content"] for one in short.arguments["history"]] == ["question 2", "answer 2"]
        assert short.key != long.key
        await short.text("Short.")
        await stream.text(sent["reply_id"], "Short.")
        await short.fail("still too long", "context_overflow")
        failed = (await stream.until("message", id=sent["reply_id"], status="failed")).data
        assert (failed["error_code"], failed["remembers_from"]) == ("context_overflow", 3)


async def test_a_question_is_answered_once(talk: Talk, harper: Agent) -> None:
    async with talk.begun(harper) as (stream, sent, work):
        asking = asyncio.create_task(work.ask("What is your name?", "surname", "name"))
        shown = (await stream.until("message", id=sent["reply_id"], status="asking")).data["question"]
        assert shown["message"] == "What is your name?"
        assert list(shown["requested_schema"]["properties"]) == ["surname", "name"]
        for content in ({}, {"surname": "Lovelace", "name": 3}, None):
            refused = await talk.post(sent["reply_id"], "answer", action="accept", content=content)
            assert (refused.status_code, refused.json()["field"]) == (422, "content"), refused.text
        stale = await talk.post(sent["reply_id"], "answer", action="decline", question_id="another one")
        assert (stale.status_code, stale.json()["code"]) == (409, "answered")
        content = {"surname": "Lovelace", "name": "Ada"}
        body = {"action": "accept", "content": content, "question_id": shown["id"]}
        answers = await asyncio.gather(*(talk.post(sent["reply_id"], "answer", **body) for _ in range(3)))
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
        assert await soon(asking) == {"action": "accept", "content": content}
        await work.answer("Hello, Ada!")
        await stream.until("message", id=sent["reply_id"], status="answered")
    assert harper.executed == ["hello"]


async def test_a_reply_is_cancelled_while_it_asks(talk: Talk, harper: Agent) -> None:
    async with talk.begun(harper) as (stream, sent, work):
        asking = asyncio.create_task(work.ask("Sure?", "sure"))
        await stream.until("message", id=sent["reply_id"], status="asking")
        assert (await talk.post(sent["reply_id"], "cancel")).status_code == 200
        refused = await talk.post(sent["reply_id"], "answer", action="accept", content={"sure": "yes"})
        assert (refused.status_code, refused.json()["code"]) == (409, "not_asking")
        asking.cancel()


async def test_a_cancel_reaches_the_call_that_goes_on_after_a_question(talk: Talk, harper: Agent) -> None:
    async with talk.begun(harper) as (stream, sent, work):
        asking = asyncio.create_task(work.ask("Sure?", "sure"))
        await stream.until("message", id=sent["reply_id"], status="asking")
        body = {"action": "accept", "content": {"sure": "yes"}}
        assert (await talk.post(sent["reply_id"], "answer", **body)).status_code == 200
        await soon(asking)
        assert not work.cancelled.is_set()
        assert (await talk.post(sent["reply_id"], "cancel")).status_code == 200
        await soon(work.cancelled.wait())


async def test_the_call_at_an_agent_without_such_cancels_is_left(lab: Lab, talk: Talk) -> None:
    async with an_agent("scribe", cancels=False) as scribe:
        await attach(lab.service.parts.engine, scribe, team="Gyges")
        sent = await talk.send(server_id="pallas-scribe")
        work = await scribe.next()
        assert (await talk.post(sent["reply_id"], "cancel")).json()["status"] == "cancelled"
        await soon(work.left.wait())
        assert not work.cancelled.is_set()
