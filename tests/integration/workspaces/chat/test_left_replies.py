"""Replies of replicas that are gone."""

import socket
import uuid
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.integration.real_parts import until
from tests.integration.workspaces.chat.talk import Talk, attach, begin
from tests.integration.workspaces.lab import API, Lab, a_hub, a_workspaces
from tests.waiting import eventually
from tests.workspaces_world.agent import Agent, an_agent

from pallas_postgres.engine import open_engine
from workspaces.chat import replies
from workspaces.live import hub
from workspaces.tables import REVISIONS, ChatMessage, Conversation

UNOWNED = "pallas_workspaces_replies_unowned"
GONE, ELSEWHERE = f"1@{socket.gethostname()}", "1@elsewhere"
"""Replicas that have never been."""


async def store_reply(
    connection: AsyncConnection, talk: Talk, instance: str, name: str = "harper", owner: str = GONE
) -> str:
    """Store a message and the reply to it, as a replica does that is lost right behind."""
    reply_id = str(uuid.uuid4())
    both: dict[str, Any] = {"conversation_id": talk.conversation, "revision": REVISIONS.next_value()}
    asked = {"id": str(uuid.uuid4()), "seq": 1, "role": "user", "content": "hello", "status": "answered"}
    agent = {"agent_instance_id": instance, "agent_server_id": f"pallas-{name}", "key": str(uuid.uuid4()), "attempt": 1}
    reply = {"id": reply_id, "seq": 2, "role": "assistant", "status": "sending", "owner": owner, **agent}
    for message in (asked, reply):
        await connection.execute(insert(ChatMessage).values(**both, **message))
    return reply_id


async def test_a_reply_whose_replica_is_gone_is_called_for_and_counted_until_then(
    database: str, harper: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "UNOWNED_SECONDS", 0.1)
    async with a_workspaces(postgres_url=database) as lab:
        engine = lab.service.parts.engine
        instance = await attach(engine, harper)
        talk = await begin(lab.browser)
        async with engine.connect() as stuck:
            locked = select(Conversation.id).with_for_update(key_share=True)
            await stuck.execute(locked)  # so no replica can take the reply over
            async with engine.begin() as connection:
                reply_id = await store_reply(connection, talk, instance)
            await eventually(lambda: lab.measured(UNOWNED) == 1)
        work = await harper.next()
        await eventually(lambda: lab.measured(UNOWNED) == 0)
        async with talk.following(after=0) as stream:
            await work.answer("hello")
            await stream.until("message", id=reply_id, status="answered", attempt=2)


@pytest.mark.parametrize(
    "why", ["its agent keeps no keys", "its key may be forgotten", "its agent knows callers by their addresses"]
)
async def test_a_reply_that_cannot_be_called_for_again_is_interrupted_and_its_agent_not_called(
    lab: Lab, why: str
) -> None:
    engine = lab.service.parts.engine
    async with an_agent("scribe", keeps_keys=why != "its agent keeps no keys") as scribe:
        instance = await attach(engine, scribe)
        talk = await begin(lab.browser)
        async with engine.begin() as connection:
            if why == "its key may be forgotten":
                await connection.execute(update(Conversation).values(updated_at=func.now() - timedelta(hours=25)))
            reply_id = await store_reply(
                connection, talk, instance, "scribe", ELSEWHERE if "addresses" in why else GONE
            )

        async def interrupted() -> bool:
            return (await talk.reply(reply_id))["error_code"] == "interrupted"

        await until(interrupted)
        assert scribe.executed == []


async def test_a_reply_of_another_host_is_called_for_where_a_token_names_the_caller(lab: Lab, harper: Agent) -> None:
    engine = lab.service.parts.engine
    instance = await attach(engine, harper)
    talk = await begin(lab.browser)
    answer = await lab.browser.patch(f"{API}/pallas/{instance}", json={"agent_token": "t"})
    assert answer.status_code == 200, answer.text
    async with engine.begin() as connection:
        reply_id = await store_reply(connection, talk, instance, owner=ELSEWHERE)
    async with talk.following(after=0) as stream:
        await (await harper.next()).answer("hello")
        await stream.until("message", id=reply_id, status="answered")


async def test_a_replica_lives_until_its_process_is_gone_or_has_frozen(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(database, pool=1, service="tests")

    async def lives(replica: str) -> bool:
        async with engine.connect() as connection:
            return replica.partition("@")[0] in (await connection.scalars(hub.REPLICAS)).all()

    async with a_hub(database) as ended:
        assert await lives(ended.replica)

    async def gone() -> bool:
        return not await lives(ended.replica)

    await until(gone)
    monkeypatch.setattr(hub, "SILENT_SECONDS", 1)
    monkeypatch.setattr(hub, "PING_SECONDS", 60)
    monkeypatch.setattr(hub, "RETRY_SECONDS", 60)
    async with a_hub(database) as frozen:

        async def given_up() -> bool:
            return not await lives(frozen.replica)

        assert await lives(frozen.replica)
        await until(given_up)
    await engine.dispose()
