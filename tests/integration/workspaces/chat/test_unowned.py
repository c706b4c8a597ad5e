"""Replies that no replica takes over are counted."""

import uuid

import pytest
from sqlalchemy import insert, select
from tests.integration.real_parts import until
from tests.integration.workspaces.chat.talk import attach, begin
from tests.integration.workspaces.lab import a_workspaces
from tests.waiting import eventually
from tests.workspaces_world.agent import Agent

from workspaces.chat import replies
from workspaces.tables import REVISIONS, ChatMessage, Conversation

UNOWNED = "pallas_workspaces_replies_unowned"


async def test_replies_that_nobody_takes_over_are_counted_until_somebody_does(
    database: str, harper: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "UNOWNED_SECONDS", 0.1)
    async with a_workspaces(postgres_url=database) as lab:
        engine = lab.service.parts.engine
        await attach(engine, harper)
        talk = await begin(lab.browser)
        reply = {
            "id": str(uuid.uuid4()), "conversation_id": talk.conversation, "seq": 2, "role": "assistant",
            "content": "", "status": "sending", "key": str(uuid.uuid4()), "attempt": 1, "replica": 1,
            "revision": REVISIONS.next_value(),
        }  # fmt: skip
        async with engine.connect() as stuck:
            locked = select(Conversation.id).with_for_update(key_share=True)
            await stuck.execute(locked)  # so no replica can take the reply over
            async with engine.begin() as connection:
                await connection.execute(insert(ChatMessage).values(reply))
            await eventually(lambda: lab.measured(UNOWNED) == 1)
        await eventually(lambda: lab.measured(UNOWNED) == 0)

        async def given_up() -> bool:
            return (await talk.reply(str(reply["id"])))["error_code"] == "agent_gone"

        await until(given_up)
