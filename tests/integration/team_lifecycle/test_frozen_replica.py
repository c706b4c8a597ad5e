"""A replica that freezes inside a change blocks the others for a few seconds, not for as long as it is frozen."""

import asyncio
import signal
from pathlib import Path

import httpx
from sqlalchemy import text
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.lab import SERVICE_PASSWORD, TEAMS, Lifecycle, environment
from tests.integration.team_lifecycle.replica import replicas
from tests.postgres import PostgresServer
from tests.waiting import soon, within

from pallas_postgres.engine import open_engine
from team_lifecycle.changes.make_changes import OUTBOX

WAITS = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
HOLDS = "select state from pg_stat_activity join pg_locks using (pid) where locktype = 'advisory' and granted"


async def test_a_replica_frozen_inside_a_change_blocks_the_others_for_seconds_only(
    lifecycle: Lifecycle, postgres: PostgresServer, tmp_path: Path
) -> None:
    team_id, _ = await lifecycle.team()
    path, database = f"{TEAMS}{team_id}/rotate/", lifecycle.settings["postgres_url"]
    engine = open_engine(database, pool=1, service="tests")
    async with (
        replicas(1, environment(**lifecycle.settings), tmp_path) as [frozen],
        httpx.AsyncClient(auth=("daedalus-service", SERVICE_PASSWORD), trust_env=False, timeout=60) as client,
    ):

        async def returns(statement: str, answer: object) -> bool:
            return [row[0] for row in await postgres.say(statement, database)] == [answer]

        assert frozen.process is not None
        async with engine.begin() as before:
            await before.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": OUTBOX.lock})
            begun = asyncio.create_task(client.post(f"{frozen.base}{path}"))
            await until(lambda: returns(WAITS, 1))
            frozen.process.send_signal(signal.SIGSTOP)
        try:
            await until(lambda: returns(HOLDS, "idle in transaction"))
            async with within(10.0):
                assert (await soon(lifecycle.daedalus.post(path), within=20)).status_code == 200
        finally:
            frozen.process.send_signal(signal.SIGCONT)
        answer = await soon(begun)
        assert (answer.status_code, answer.json()["code"]) == (503, "no_database")
        assert (await client.post(f"{frozen.base}{path}")).status_code == 200
    await engine.dispose()
