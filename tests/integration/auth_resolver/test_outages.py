"""Which answers come from Redis and which from team-lifecycle, and what still works when one of them is away."""

import asyncio
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.embedded import RedisServer
from tests.integration.auth_resolver.bearers import (
    DELETED,
    EMPTY,
    JTI,
    TEAM,
    TEAM_KEY,
    TURN_KEY,
    opaque,
    team_claims,
    turn_claims,
)
from tests.integration.auth_resolver.lab import Replica, Truth, a_resolver, a_truth, resolved
from tests.integration.real_parts import until
from tests.requirements import requirement
from tests.waiting import eventually, soon, within

from pallas_bus.connection import Bus
from pallas_contracts.auth import LookupKey, TeamRecord
from pallas_contracts.errors import Denied, PallasError, Unavailable
from pallas_lookups.cache import TIMEOUT

TEAM_ROW = LookupKey(kind="team", id=TEAM)


def a_team() -> str:
    return TEAM_KEY.sign(team_claims())


@requirement("K-shape-5", "K-pkg-3")
async def test_a_cached_answer_asks_team_lifecycle_nothing(resolver: Replica, gateway: Bus, truth: Truth) -> None:
    truth.know(token := opaque("a token"))
    for bearer in (a_team(), TURN_KEY.sign(turn_claims()), token.text):
        assert (await resolved(gateway, bearer)).cache == "miss"
        asked = len(truth.asked)
        for _ in range(3):
            assert (await resolved(gateway, bearer)).cache == "hit"
        assert len(truth.asked) == asked
    assert resolver.measured("pallas_auth_resolve_seconds_count", cache="hit") == 9


async def test_replicas_share_cached_look_ups(
    resolver: Replica, gateway: Bus, truth: Truth, nats_url: str, redis_url: str
) -> None:
    assert resolver.failures() == {}
    await resolved(gateway, a_team())
    truth.away = True
    async with a_resolver(nats_url, redis_url) as second:
        for _ in range(20):
            assert (await resolved(gateway, a_team())).cache == "hit"
        assert second.measured("pallas_auth_resolve_seconds_count", cache="hit") > 0


async def test_a_missing_row_is_cached_too(resolver: Replica, gateway: Bus, truth: Truth) -> None:
    unknown = opaque("unknown").text
    for _ in range(5):
        with pytest.raises(Denied):
            await resolved(gateway, unknown)
    assert len(truth.asked) == 1
    assert resolver.failures() == {"token_not_found": 5}


async def test_concurrent_requests_for_a_row_share_a_question(resolver: Replica, gateway: Bus, truth: Truth) -> None:
    truth.held = asyncio.Event()
    asked = [asyncio.create_task(resolved(gateway, a_team())) for _ in range(50)]
    await eventually(lambda: bool(truth.asked))
    truth.held.set()
    await soon(asyncio.gather(*asked))
    assert len(truth.asked) <= 10
    assert resolver.failures() == {}


async def test_without_redis_answers_come_from_team_lifecycle(
    truth: Truth, gateway: Bus, nats_url: str, tmp_path: Path
) -> None:
    with RedisServer(tmp_path) as redis:
        async with a_resolver(nats_url, redis.url):
            assert (await resolved(gateway, a_team())).cache == "miss"
            redis.kill9()
            changed = TeamRecord(id=TEAM, name="Kottos", active=True, active_jti=JTI, libraries=("new",))
            truth.rows[TEAM_ROW] = changed
            for _ in range(3):
                answer = await resolved(gateway, a_team())
                assert (answer.cache, answer.libraries) == ("bypass", ("new",))
            with pytest.raises(Denied):
                await resolved(gateway, TEAM_KEY.sign(team_claims(DELETED)))
            await asyncio.to_thread(redis.start)

            async def warm() -> bool:
                return (await resolved(gateway, a_team())).cache == "hit"

            await until(warm)


async def test_an_answer_takes_less_than_three_seconds_while_redis_hangs(
    truth: Truth, gateway: Bus, nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pallas_lookups.cache.TIMEOUT", TIMEOUT)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, a_resolver(nats_url, f"redis://127.0.0.1:{port}"), within(3.0):
        assert (await soon(resolved(gateway, a_team()))).cache == "bypass"
    assert truth.asked


async def test_without_team_lifecycle_cached_answers_are_given_and_others_are_unavailable(
    resolver: Replica, gateway: Bus, truth: Truth
) -> None:
    truth.know(token := opaque("a token"))
    await resolved(gateway, a_team())
    truth.away = True
    for _ in range(3):
        assert (await resolved(gateway, a_team())).cache == "hit"
    for cold in (TEAM_KEY.sign(team_claims(EMPTY)), token.text, TURN_KEY.sign(turn_claims())):
        with pytest.raises(Unavailable):
            await resolved(gateway, cold)
    truth.away = False
    assert (await resolved(gateway, token.text)).cache == "miss"
    assert resolver.failures() == {}, "nobody was refused"


async def test_a_missing_team_lifecycle_is_reported_at_once(
    bus: Connecting, gateway: Bus, nats_url: str, redis_url: str
) -> None:
    async with a_resolver(nats_url, redis_url):
        with pytest.raises(Unavailable) as failed:
            await soon(resolved(gateway, a_team()))
        assert failed.value.code == "no_responders", "it was not waited for"
        async with a_truth(await bus("team-lifecycle")):
            assert (await resolved(gateway, a_team())).principal.id == TEAM


async def test_a_key_sealed_with_an_unknown_fernet_key_is_an_internal_error_and_no_refusal(
    resolver: Replica, gateway: Bus, truth: Truth
) -> None:
    row = LookupKey(kind="key", id=TEAM_KEY.kid)
    truth.rows[row] = TEAM_KEY.record.model_copy(update={"secret": "gAAAAAB-not-ours"})
    with pytest.raises(PallasError) as failed:
        await resolved(gateway, a_team())
    assert (failed.value.kind, failed.value.code) == ("internal", "sealed_by_another")
    assert resolver.failures() == {}


async def test_a_resolver_answers_open_questions_before_it_ends(
    truth: Truth, gateway: Bus, nats_url: str, redis_url: str
) -> None:
    truth.held = asyncio.Event()
    async with a_resolver(nats_url, redis_url) as resolver:
        waiting = asyncio.create_task(resolved(gateway, a_team()))
        await eventually(lambda: bool(truth.asked))
        draining = asyncio.create_task(resolver.service.drain())
        await soon(until_not_answered(gateway))
        truth.held.set()
        await soon(draining)
        assert (await soon(waiting)).principal.id == TEAM


async def until_not_answered(gateway: Bus) -> None:
    """Wait until the resolver takes no more questions."""
    while True:
        try:
            await resolved(gateway, "")
        except Unavailable:
            return
        except Denied:
            continue
