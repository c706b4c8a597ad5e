"""A per-turn JWT is accepted once. Only requests with `uses_up` count, and other bearers are never counted."""

import asyncio
import time
import uuid
from pathlib import Path

import pytest
from tests.embedded import RedisServer
from tests.integration.auth_resolver.bearers import TEAM_KEY, TURN_KEY, opaque, team_claims, turn_claims
from tests.integration.auth_resolver.lab import Replica, Truth, a_resolver, resolved
from tests.requirements import requirement
from tests.waiting import eventually

from pallas_bus.ask import ask
from pallas_bus.connection import Bus
from pallas_contracts.auth import LibraryRecord, LookupKey, ResolveBearer
from pallas_contracts.catalog import RESOLVE
from pallas_contracts.errors import Denied, Unavailable


async def refusal(gateway: Bus, bearer: str, *, uses_up: bool = True) -> tuple[str, str]:
    """The code and message with which a bearer is refused."""
    with pytest.raises(Denied) as refused:
        await resolved(gateway, bearer, uses_up=uses_up)
    return refused.value.code, refused.value.message


REPLAY = ("replay", "Token replay detected.")


@requirement("A-5.3.3")
async def test_a_per_turn_token_is_accepted_once_over_all_replicas(
    resolver: Replica, gateway: Bus, nats_url: str, redis_url: str
) -> None:
    async with a_resolver(nats_url, redis_url) as second:
        used = 0
        for _ in range(5):
            bearer = TURN_KEY.sign(turn_claims())
            asked = [resolved(gateway, bearer, uses_up=True) for _ in range(8)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            refused = [answer for answer in answers if isinstance(answer, Denied)]
            assert {(error.code, error.message) for error in refused} == {REPLAY}
            used += len(answers) - len(refused)
        assert used == 5
        counted = [replica.failures().get("replay", 0) for replica in (resolver, second)]
        assert sum(counted) == 35
        assert all(counted), "both replicas were asked"


async def test_identities_of_the_libraries_of_a_per_turn_token_are_sent_on_request(
    resolver: Replica, gateway: Bus, truth: Truth
) -> None:
    truth.rows |= {
        LookupKey(kind="library", id="lib_xxx"): LibraryRecord(uid="lib_xxx", identity="one"),
        LookupKey(kind="library", id="lib_old"): LibraryRecord(uid="lib_old"),
    }
    bearer = TURN_KEY.sign(turn_claims(libs=["lib_xxx", "lib_old", "lib_unknown"]))
    assert (await resolved(gateway, bearer)).identities == {}
    assert not any(key.kind == "library" for asked in truth.asked for key in asked)
    told = await ask(gateway, RESOLVE, ResolveBearer(bearer=bearer, identities=True))
    assert (told.libraries, told.identities) == (("lib_xxx", "lib_old", "lib_unknown"), {"lib_xxx": "one"})
    nothing = ResolveBearer(bearer=TURN_KEY.sign(turn_claims(libs=[])), identities=True)
    assert (await ask(gateway, RESOLVE, nothing)).identities == {}


async def test_only_a_request_with_uses_up_consumes_a_per_turn_token(resolver: Replica, gateway: Bus) -> None:
    bearer = TURN_KEY.sign(turn_claims())
    for _ in range(3):
        await resolved(gateway, bearer)
    await resolved(gateway, bearer, uses_up=True)
    assert await refusal(gateway, bearer) == REPLAY
    assert (await resolved(gateway, bearer)).principal.type == "turn", "the other requests of its turn go on"
    assert resolver.failures() == {"replay": 1}


@requirement("A-5.3.4", "A-14.1.2")
async def test_team_jwts_and_opaque_tokens_can_be_used_repeatedly(
    resolver: Replica, gateway: Bus, truth: Truth
) -> None:
    truth.know(token := opaque("a token"))
    for bearer in (TEAM_KEY.sign(team_claims()), token.text):
        for _ in range(3):
            await resolved(gateway, bearer, uses_up=True)
    assert resolver.failures() == {}


async def test_two_tokens_with_the_same_jti_count_as_one(resolver: Replica, gateway: Bus) -> None:
    jti = str(uuid.uuid4())
    await resolved(gateway, TURN_KEY.sign(turn_claims(jti=jti)), uses_up=True)
    assert await refusal(gateway, TURN_KEY.sign(turn_claims(jti=jti, ws="another"))) == REPLAY
    assert resolver.failures() == {"replay": 1}


async def test_a_refusal_does_not_use_up_a_token(resolver: Replica, gateway: Bus) -> None:
    claims = turn_claims()
    assert (await refusal(gateway, TURN_KEY.sign(claims | {"libs": None})))[0] == "malformed"
    await resolved(gateway, TURN_KEY.sign(claims), uses_up=True)
    assert resolver.failures() == {"malformed": 1}


async def test_a_jti_is_remembered_until_its_token_has_expired(
    resolver: Replica, gateway: Bus, redis_server: RedisServer
) -> None:
    assert resolver.failures() == {}
    claims = turn_claims()
    await resolved(gateway, TURN_KEY.sign(claims), uses_up=True)
    [name] = [line for line in redis_server.say("KEYS", "*jti*").splitlines() if "jti" in line]
    assert claims["jti"] not in name, "it is kept as a digest"
    seconds = int(redis_server.say("TTL", name).splitlines()[0].removeprefix(":"))
    assert claims["exp"] + 30 - time.time() < seconds < claims["exp"] + 120 - time.time()


async def test_after_redis_restarts_every_older_token_counts_as_used(
    truth: Truth, gateway: Bus, nats_url: str, tmp_path: Path
) -> None:
    with RedisServer(tmp_path) as redis:
        async with a_resolver(nats_url, redis.url) as resolver:
            await next_second()  # JWTs name whole seconds
            used, unused = (TURN_KEY.sign(turn_claims(iat=int(time.time()), exp=int(time.time()) + 500)) for _ in "ab")
            await resolved(gateway, used, uses_up=True)
            await next_second()
            await asyncio.to_thread(redis.restart, kill=True)
            for bearer in (used, unused):
                assert await refusal_when_back(gateway, bearer) == REPLAY
            assert (await resolved(gateway, unused)).principal.type == "turn"
            await resolved(gateway, TURN_KEY.sign(turn_claims()), uses_up=True)
            assert resolver.failures() == {"replay": 2}
    assert truth.asked


async def next_second() -> None:
    """Wait for the next second of the clock."""
    before = int(time.time())
    await eventually(lambda: int(time.time()) > before)


async def refusal_when_back(gateway: Bus, bearer: str) -> tuple[str, str]:
    """The code and message of a refusal, once Redis answers again."""
    while True:
        try:
            return await refusal(gateway, bearer)
        except Unavailable:
            continue


async def test_without_redis_a_per_turn_token_cannot_be_used_up(
    truth: Truth, gateway: Bus, nats_url: str, tmp_path: Path
) -> None:
    with RedisServer(tmp_path) as redis:
        async with a_resolver(nats_url, redis.url) as resolver:
            redis.kill9()
            with pytest.raises(Unavailable):
                await resolved(gateway, TURN_KEY.sign(turn_claims()), uses_up=True)
            assert (await resolved(gateway, TURN_KEY.sign(turn_claims()))).cache == "bypass"
            assert resolver.failures() == {}
            await eventually(lambda: resolver.measured("pallas_auth_resolve_seconds_count", cache="failed") == 1)
    assert truth.asked


@requirement("A-3.2.4")
async def test_per_turn_tokens_can_be_disabled(truth: Truth, gateway: Bus, nats_url: str, redis_url: str) -> None:
    async with a_resolver(nats_url, redis_url, per_turn_tokens="false") as resolver:
        bearer = TURN_KEY.sign(turn_claims())
        assert await refusal(gateway, bearer) == ("invalid_issuer", "Invalid token issuer.")
        assert (await resolved(gateway, TEAM_KEY.sign(team_claims()))).principal.type == "team"
        assert resolver.failures() == {"invalid_issuer": 1}
    assert truth.asked
