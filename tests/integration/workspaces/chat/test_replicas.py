"""Two replicas on one database, in the test's process."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from tests.integration.workspaces.chat.talk import Talk, attach, begin
from tests.integration.workspaces.lab import PASSWORD, Lab, a_workspaces, client_of
from tests.waiting import soon
from tests.workspaces_world.agent import Agent, an_agent


@dataclass
class Pair:
    """Two replicas. `talk` is a conversation at the first one, `there` the same at the second one."""

    first: Lab
    second: Lab
    talk: Talk
    there: Talk
    stop_first: AsyncExitStack


@pytest.fixture
async def pair(database: str, harper: Agent) -> AsyncGenerator[Pair]:
    """Two replicas and an agent."""
    async with AsyncExitStack() as stack, a_workspaces(postgres_url=database) as second:
        stop_first = await stack.enter_async_context(AsyncExitStack())
        first = await stop_first.enter_async_context(a_workspaces(postgres_url=database))
        await attach(first.service.parts.engine, harper)
        talk = await begin(first.browser)
        yield Pair(first, second, talk, Talk(second.browser, talk.conversation), stop_first)


async def test_what_one_replica_hears_of_an_agent_browsers_of_all_hear(pair: Pair, harper: Agent) -> None:
    async with pair.there.following() as stream:
        sent = await pair.talk.send()
        work = await harper.next()
        await work.progress("step 1")
        await stream.until("progress", message="step 1")
        await work.text("Gr")
        await work.text("üße 👋 " * 1000)
        await stream.text(sent["reply_id"], "Gr" + "üße 👋 " * 1000)
        async with pair.there.following() as late:
            await late.until("progress", message="step 1")
            await late.text(sent["reply_id"], "Gr" + "üße 👋 " * 1000)
        await work.answer("Grüße")
        await stream.until("message", id=sent["reply_id"], content="Grüße")


async def test_any_replica_cancels(pair: Pair, harper: Agent) -> None:
    sent = await pair.talk.send()
    work = await harper.next()
    assert (await pair.there.post(sent["reply_id"], "cancel")).status_code == 200
    await soon(work.cancelled.wait())


async def test_what_was_said_stays_if_another_replica_cancels(pair: Pair, harper: Agent) -> None:
    async with pair.there.following() as there, pair.talk.following() as here:
        sent = await pair.talk.send()
        await (await harper.next()).text("Owls see")
        await there.text(sent["reply_id"], "Owls see")
        assert (await pair.there.post(sent["reply_id"], "cancel")).status_code == 200
        for stream in (there, here):
            await stream.until("message", id=sent["reply_id"], status="cancelled", content="Owls see")


async def test_a_cancel_reaches_the_call_of_a_replica_that_is_gone(pair: Pair, harper: Agent) -> None:
    sent = await pair.talk.send()
    work = await harper.next()
    [calling] = [task for task in asyncio.all_tasks() if task.get_name() == f"reply {sent['reply_id']}"]
    calling.cancel()  # it ends without having written anything
    await soon(work.left.wait())
    assert (await pair.there.post(sent["reply_id"], "cancel")).status_code == 200
    await soon(work.cancelled.wait())


async def test_any_replica_takes_the_answer_to_a_question(pair: Pair, harper: Agent) -> None:
    async with pair.there.following() as stream:
        sent = await pair.talk.send()
        work = await harper.next()
        asking = asyncio.create_task(work.ask("Name?", "name"))
        await stream.until("message", status="asking")
        body = {"action": "accept", "content": {"name": "Ada"}}
        both = await asyncio.gather(*(one.post(sent["reply_id"], "answer", **body) for one in (pair.talk, pair.there)))
        assert sorted(answer.status_code for answer in both) == [200, 409]
        assert (await soon(asking))["content"] == {"name": "Ada"}
        await work.answer("Hello")
        await stream.until("message", id=sent["reply_id"], status="answered")


async def test_a_replica_that_stops_hands_its_replies_over_and_says_bye(pair: Pair, harper: Agent) -> None:
    async with (
        client_of(pair.first.base, ("admin", PASSWORD)) as http,
        pair.talk.following(http=http) as old,
        pair.there.following() as stream,
    ):
        sent = await pair.talk.send()
        work = await harper.next()
        await work.progress("step 1")
        await stream.until("progress", message="step 1")
        stopping = asyncio.create_task(pair.stop_first.aclose())
        await old.until("bye")
        moved = (await stream.until("message", id=sent["reply_id"], attempt=2)).data
        assert moved["status"] == "sending"
        await soon(stopping)
        await work.progress("step 2")
        await stream.until("progress", message="step 2", attempt=2)
        await work.answer("done")
        await stream.until("message", id=sent["reply_id"], status="answered", content="done")
    assert harper.executed == ["hello"]
    assert pair.second.measured("pallas_workspaces_replies_taken_over_total") == 1


async def test_a_question_is_asked_again_by_who_takes_over(pair: Pair, harper: Agent) -> None:
    async with pair.there.following() as stream:
        sent = await pair.talk.send()
        work = await harper.next()
        asking = asyncio.create_task(work.ask("Name?", "name"))
        first = (await stream.until("message", status="asking")).data["question"]
        await soon(pair.stop_first.aclose())
        again = (await stream.until("message", status="asking", attempt=2)).data["question"]
        assert again == first
        answer = {"action": "accept", "content": {"name": "Ada"}}
        assert (await pair.there.post(sent["reply_id"], "answer", **answer)).status_code == 200
        assert (await soon(asking))["content"] == {"name": "Ada"}
        await work.answer("Hello, Ada")
        await stream.until("message", id=sent["reply_id"], status="answered")
    assert harper.executed == ["hello"]


async def test_a_call_that_cannot_be_repeated_is_waited_for_by_the_replica_that_stops(pair: Pair) -> None:
    async with an_agent("scribe", keeps_keys=False) as scribe, pair.there.following() as stream:
        await attach(pair.first.service.parts.engine, scribe, team="Gyges")
        sent = await pair.talk.send(server_id="pallas-scribe")
        work = await scribe.next()
        stopping = asyncio.create_task(pair.stop_first.aclose())
        await pair.first.service.parts.stopping.wait()
        await work.answer("just in time")
        await stream.until("message", id=sent["reply_id"], content="just in time", attempt=1)
        await soon(stopping)
