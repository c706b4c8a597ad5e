"""Agents that are away, break off, or are not well, while a reply is wanted of them."""

import pytest
from tests.integration.workspaces.chat.talk import Talk, attach, begin, reading_events
from tests.integration.workspaces.lab import API, Lab
from tests.requirements import requirement
from tests.workspaces_world.agent import Agent, an_agent

from workspaces.agents import health
from workspaces.chat import replying


async def test_an_answer_that_was_lost_on_its_way_is_asked_for_again(talk: Talk, harper: Agent) -> None:
    async with talk.begun(harper) as (stream, sent, work):
        await work.text("Half of")
        await stream.text(sent["reply_id"], "Half of")
        await harper.stop()
        await stream.until("progress", message="The connection to the agent was lost. Trying again.")
        await work.answer("Half of it, and more.")
        await harper.start()
        reply = (await stream.until("message", id=sent["reply_id"], status="answered")).data
        assert reply["content"] == "Half of it, and more."
    assert harper.executed == ["hello"]


async def test_an_agent_that_does_not_keep_keys_is_not_called_twice(lab: Lab) -> None:
    async with an_agent("scribe", keeps_keys=False) as scribe:
        await attach(lab.service.parts.engine, scribe)
        talk = await begin(lab.browser)
        async with talk.following() as stream:
            sent = await talk.send(server_id="pallas-scribe")
            await (await scribe.next()).progress("step 1")
            await stream.until("progress", message="step 1")
            await scribe.stop()
            failed = (await stream.until("message", id=sent["reply_id"], status="failed")).data
            await scribe.start()
            assert failed["error_code"] == "interrupted", failed["error"]
            assert "Check before you retry" in failed["error"]
            assert scribe.executed == ["hello"]
            assert (await talk.post(sent["reply_id"], "retry")).json()["code"] == "needs_confirmation"
            await talk.post(sent["reply_id"], "retry", confirmed=True)
            await (await scribe.next(2)).answer("done")
            await stream.until("message", id=sent["reply_id"], status="answered")


async def test_a_call_that_never_arrived_is_repeated_wherever_it_goes(lab: Lab) -> None:
    async with an_agent("scribe", keeps_keys=False) as scribe:
        async with reading_events(lab.browser, f"{API}/events", {}) as told:
            await attach(lab.service.parts.engine, scribe)
            await told.until("health", server_id="pallas-scribe")
        await scribe.stop()
        talk = await begin(lab.browser)
        async with talk.following() as stream:
            sent = await talk.send(server_id="pallas-scribe")
            await stream.until("progress", message="The connection to the agent was lost. Trying again.")
            await scribe.start()
            await (await scribe.next()).answer("done")
            await stream.until("message", id=sent["reply_id"], status="answered")


async def test_an_agent_that_stays_away_fails_the_reply_and_a_retry_may_still_have_its_answer(
    talk: Talk, harper: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replying, "LOST_SECONDS", 0.3)
    monkeypatch.setattr(health, "AGAIN_SECONDS", 0)
    async with talk.begun(harper) as (stream, sent, work):
        await work.progress("step 1")
        await stream.until("progress", message="step 1")
        await harper.stop()
        failed = (await stream.until("message", id=sent["reply_id"], status="failed")).data
        assert failed["error_code"] in ("unreachable", "connection_lost")
        await work.answer("It was done all the time.")
        await harper.start()
        while (retried := await talk.post(sent["reply_id"], "retry")).status_code == 503:
            await stream.until("health", server_id="pallas-harper")  # it was checked while it was away
        assert retried.status_code == 202
        await stream.until("message", id=sent["reply_id"], content="It was done all the time.")
    assert harper.executed == ["hello"]


async def test_a_busy_agent_is_asked_again(talk: Talk, harper: Agent) -> None:
    async with talk.begun(harper) as (stream, sent, work):
        harper.forget(work)
        await work.fail("too many turns", "busy")
        await (await harper.next(2)).answer("done")
        await stream.until("message", id=sent["reply_id"], status="answered")


@requirement("P-4.10", "P-4.11")
async def test_an_agent_that_is_not_well_cannot_be_sent_messages_until_it_is(
    lab: Lab, harper: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "AGAIN_SECONDS", 0)
    harper.health = {"status": "error", "message": "Argos MCP server unreachable"}
    async with reading_events(lab.browser, f"{API}/events", {}) as told:
        await attach(lab.service.parts.engine, harper)
        await told.until("health", server_id="pallas-harper")
    talk = await begin(lab.browser)
    async with talk.following() as stream:
        refused = await talk.try_send()
        assert refused.status_code == 503
        reason = "the agent cannot be called: Argos MCP server unreachable"
        assert refused.json() == {"error": reason, "code": "agent_unhealthy"}
        assert int(refused.headers["retry-after"]) >= 1
        assert (await talk.page())["messages"] == []
        harper.health = {"status": "degraded", "message": "slow"}
        assert (await talk.try_send()).status_code == 503
        # The refusal has made the service check again, and a degraded agent can be called.
        await stream.until("health", server_id="pallas-harper")
        await talk.send()
        await harper.next()
