"""Requests and events while Postgres, Redis or the broker is away, and after it is back."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.embedded import NatsServer, RedisServer
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.lab import ADMIN, TEAMS, Lifecycle, a_lifecycle
from tests.postgres import PostgresServer
from tests.waiting import eventually, soon, within

from pallas_lookups.cache import TIMEOUT
from pallas_postgres.engine import open_engine
from team_lifecycle.changes.make_changes import OUTBOX


@pytest.fixture
def lifecycle(own_lifecycle: Lifecycle) -> Lifecycle:
    """A service of this test alone, with its servers."""
    return own_lifecycle


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check readiness, and look for unsent events, many times a second."""
    monkeypatch.setattr("pallas_runtime.probes.INTERVAL", 0.05)
    monkeypatch.setattr("pallas_outbox.relay.POLL_SECONDS", 0.05)


@pytest.fixture
def own_postgres(tmp_path_factory: pytest.TempPathFactory) -> "PostgresServer":
    """A Postgres of this test alone, not yet running."""
    return PostgresServer(tmp_path_factory.mktemp("own"))


async def missing(lifecycle: Lifecycle) -> set[str]:
    ready = await lifecycle.stranger.get("/readyz")
    return set(ready.json().get("missing", {}))


def reports_missing(lifecycle: Lifecycle, *words: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return await missing(lifecycle) == set(words)

    return look


def is_refused(answer: httpx.Response) -> bool:
    return answer.status_code == 503 and int(answer.headers["retry-after"]) > 0


async def test_without_redis_changes_are_refused_and_reads_succeed(lifecycle: Lifecycle, redis: RedisServer) -> None:
    team_id, _ = await lifecycle.team()
    await until(reports_missing(lifecycle))
    await asyncio.to_thread(redis.kill9)
    for method, path, body in [
        ("PUT", f"{TEAMS}{team_id}/workspaces/", {"workspace_ids": ["ws"]}),
        ("POST", f"{TEAMS}{team_id}/rotate/", None),
        ("DELETE", f"{TEAMS}{team_id}/", None),
    ]:
        assert is_refused(await lifecycle.daedalus.request(method, path, json=body)), path
    shown = await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")
    assert (shown.status_code, shown.json()["active"], shown.json()["workspace_ids"]) == (200, True, [])
    await until(reports_missing(lifecycle, "redis"))
    await asyncio.to_thread(redis.start)
    await until(reports_missing(lifecycle))
    await lifecycle.attach(team_id, "ws")


async def test_without_redis_changes_that_affect_no_look_up_are_still_made(
    lifecycle: Lifecycle, redis: RedisServer
) -> None:
    await asyncio.to_thread(redis.kill9)
    await lifecycle.user("ann", "bob")
    await lifecycle.library("papers", "ws_nobody_reads", owner="ann")
    assert (await lifecycle.grant("papers", "bob", "manager")).status_code == 201
    assert (await lifecycle.token("ann", "papers")).status_code == 201
    assert (await lifecycle.admin.post(f"{ADMIN}/keys", json={"purpose": "turn"})).status_code == 201
    # The token may be cached by now, so what it loses has to be invalidated.
    assert is_refused(await lifecycle.admin.patch(f"{ADMIN}/users/ann", json={"active": False}))
    assert is_refused(await lifecycle.admin.delete(f"{ADMIN}/libraries/papers"))


async def test_a_change_is_refused_within_three_seconds_while_redis_hangs(
    redis: RedisServer, addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pallas_lookups.cache.TIMEOUT", TIMEOUT)
    async with a_lifecycle(**addresses) as lifecycle:
        await assert_refused_while_redis_hangs(lifecycle, redis)


async def assert_refused_while_redis_hangs(lifecycle: Lifecycle, redis: RedisServer) -> None:
    team_id, _ = await lifecycle.team()
    os.kill(redis.pid, signal.SIGSTOP)
    try:
        async with within(3.0):
            assert is_refused(await soon(lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")))
    finally:
        os.kill(redis.pid, signal.SIGCONT)
    await until(reports_missing(lifecycle))
    assert (await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")).status_code == 200


async def test_without_the_broker_requests_succeed_and_events_wait(
    addresses: dict[str, str], nats_server: NatsServer
) -> None:
    nats_server.stop()
    async with a_lifecycle(**addresses) as lifecycle:
        await until(reports_missing(lifecycle, "broker"))
        team_id, _ = await lifecycle.team()
        await lifecycle.attach(team_id, "ws")
        await eventually(lambda: lifecycle.measured("pallas_lifecycle_unsent_events") == 3)
        await eventually(lambda: lifecycle.measured("pallas_lifecycle_lag_seconds") > 0)
        await asyncio.to_thread(nats_server.start)
        await until(reports_missing(lifecycle))
        await eventually(lambda: lifecycle.measured("pallas_lifecycle_unsent_events") == 0)
        await asyncio.to_thread(nats_server.stop)
        await until(reports_missing(lifecycle, "broker"))
        await lifecycle.attach(team_id)
        await asyncio.to_thread(nats_server.start)
        await until(reports_missing(lifecycle))


async def test_without_postgres_every_request_is_503_until_it_is_back(
    own_postgres: PostgresServer, redis: RedisServer, nats_server: NatsServer
) -> None:
    await asyncio.to_thread(own_postgres.start)
    try:
        async with a_lifecycle(
            postgres_url=own_postgres.url, redis_url=redis.url, nats_url=nats_server.url
        ) as lifecycle:
            team_id, _ = await lifecycle.team()
            await until(reports_missing(lifecycle))
            await asyncio.to_thread(own_postgres.kill9)
            assert is_refused(await lifecycle.daedalus.get(f"{TEAMS}{team_id}/"))
            assert is_refused(await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/"))
            assert is_refused(await lifecycle.admin.get(f"{ADMIN}/users"))
            await until(reports_missing(lifecycle, "postgres"))
            await asyncio.to_thread(own_postgres.start)
            await until(reports_missing(lifecycle), within=20)
            answers = await asyncio.gather(*(lifecycle.daedalus.get(f"{TEAMS}{team_id}/") for _ in range(20)))
            assert {answer.status_code for answer in answers} == {200}
            assert (await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")).status_code == 200
    finally:
        await asyncio.to_thread(own_postgres.stop)


async def test_a_change_that_waits_too_long_for_another_is_refused(
    addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(*given: Any, options: dict[str, str], **more: Any) -> AsyncEngine:
        return open_engine(*given, options={**options, "lock_timeout": "500ms"}, **more)

    monkeypatch.setattr("team_lifecycle.changes.make_changes.WAIT_SECONDS", 0.3)
    monkeypatch.setattr("team_lifecycle.app.open_engine", impatient)
    async with a_lifecycle(**addresses) as lifecycle:
        await assert_refused_while_another_is_made(lifecycle)


async def assert_refused_while_another_is_made(lifecycle: Lifecycle) -> None:
    team_id, _ = await lifecycle.team()
    engine = open_engine(lifecycle.settings["postgres_url"], pool=3, service="tests")
    async with engine.connect() as stuck:
        await stuck.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": OUTBOX.lock})
        waiting = [lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/") for _ in range(5)]
        assert all(map(is_refused, await soon(asyncio.gather(*waiting), within=20)))
        assert (await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")).status_code == 200
    await engine.dispose()
    assert (await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")).status_code == 200
