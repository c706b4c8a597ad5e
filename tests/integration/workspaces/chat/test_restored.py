"""The console's database is saved while an agent works, and restored: nobody calls the agent again."""

from datetime import UTC, datetime
from pathlib import Path

from tests.integration.real_parts import until
from tests.integration.workspaces.chat.talk import Talk, attach, begin
from tests.integration.workspaces.lab import a_workspaces
from tests.postgres import PostgresServer
from tests.workspaces_world.agent import Agent

from pallas_cli.backup import databases

BACKUP = "20261124t054100z-ab12"


async def test_a_reply_that_was_under_way_is_ended_and_its_agent_is_not_called_again(
    database: str, postgres: PostgresServer, harper: Agent, tmp_path: Path
) -> None:
    file, other = tmp_path / "dump", await postgres.new_database()
    async with a_workspaces(postgres_url=database) as lab:
        await attach(lab.service.parts.engine, harper)
        talk = await begin(lab.browser)
        sent = await talk.send()
        work = await harper.next()
        with file.open("wb") as sink:
            await databases.dump(database, sink)
        await work.answer("done before the disaster")

        async def answered() -> bool:
            return (await talk.reply(sent["reply_id"]))["status"] == "answered"

        await until(answered)
    assert await databases.is_empty(other)
    with file.open("rb") as source:
        await databases.restore(other, source)
    await databases.mark_restored(other, BACKUP, datetime.now(UTC))
    for _ in ("once", "and not again at the next start"):
        async with a_workspaces(postgres_url=other) as restored:
            reply = await Talk(restored.browser, talk.conversation).reply(sent["reply_id"])
            assert (reply["status"], reply["error_code"]) == ("failed", "interrupted")
            assert "was restored from a backup" in reply["error"]
    settled = "select backup, settled_at is not null from pallas_restored"
    assert await postgres.say(settled, other) == [(BACKUP, True)]
    assert len(harper.executed) == 1
