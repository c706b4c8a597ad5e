"""Messages and replies, as a browser has them."""

import asyncio
import uuid

from sqlalchemy import func, insert, text
from tests.integration.real_parts import until
from tests.integration.workspaces.chat.talk import Talk
from tests.integration.workspaces.lab import Lab
from tests.requirements import requirement
from tests.waiting import soon
from tests.workspaces_world.agent import Agent

from pallas_postgres.engine import writing
from workspaces.chat.locking import lock_conversation
from workspaces.tables import ChatMessage


@requirement("P-5.17")
async def test_an_answer_comes_over_the_event_stream(talk: Talk, harper: Agent) -> None:
    async with talk.begun(harper, "What is new?") as (stream, sent, work):
        assert work.wants_progress
        assert work.arguments == {"message": "What is new?", "conversation_id": talk.conversation}
        await work.progress("harper step 1 (llm)")
        assert (await stream.until("progress")).data["message"] == "harper step 1 (llm)"
        await work.answer("Nothing.")
        reply = (await stream.until("message", id=sent["reply_id"], status="answered")).data
        assert reply["content"] == "Nothing."
        assert reply["turn_id"] == f"turn-{sent['message_id']}"
    page = await talk.page()
    assert [one["content"] for one in page["messages"]] == ["What is new?", "Nothing."]
    assert page["conversation"]["title"] == "What is new?"
    assert not page["conversation"]["answering"]


async def test_a_message_that_waited_for_another_change_is_sent_with_what_that_has_added(
    lab: Lab, talk: Talk, harper: Agent
) -> None:
    """What the agent is sent was decided before the lock, so it is decided anew."""
    async with writing(lab.service.parts.engine) as session:
        conversation = await lock_conversation(session, talk.conversation)
        sending = asyncio.create_task(talk.send("third"))

        async def waits() -> bool:
            return bool(await session.scalar(text("select exists (select from pg_locks where not granted)")))

        await until(waits)
        for seq, role, content in ((1, "user", "first"), (2, "assistant", "second")):
            row = {"id": str(uuid.uuid4()), "conversation_id": talk.conversation, "seq": seq, "status": "answered"}
            await session.execute(insert(ChatMessage).values(**row, role=role, content=content))
        conversation.updated_at = func.clock_timestamp()
    await soon(sending)
    work = await harper.next()
    assert [one["content"] for one in work.arguments["history"]] == ["first", "second"]
    assert [one["seq"] for one in (await talk.page())["messages"]] == [1, 2, 3, 4]
