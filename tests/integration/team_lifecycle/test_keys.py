"""Signing keys: which one signs, which secrets are shown, and both algorithms."""

import jwt
import pytest
from cryptography.fernet import Fernet
from tests.integration.team_lifecycle.lab import ADMIN, FERNET_KEY, TEAMS, Lifecycle, a_lifecycle
from tests.postgres import PostgresServer
from tests.requirements import requirement

JWKS = "/.well-known/jwks.json"


@pytest.fixture
def lifecycle(own_lifecycle: Lifecycle) -> Lifecycle:
    """A service of this test alone: it has one key."""
    return own_lifecycle


async def keys_of(lifecycle: Lifecycle) -> list[dict[str, object]]:
    return (await lifecycle.admin.get(f"{ADMIN}/keys")).json()["items"]


def kid_of(token: str) -> str:
    return jwt.get_unverified_header(token)["kid"]


async def test_only_the_first_start_of_any_replica_makes_a_signing_key(addresses: dict[str, str]) -> None:
    async with a_lifecycle(**addresses) as first, a_lifecycle(**addresses) as second:
        [key] = await keys_of(first)
        assert await keys_of(second) == [key]
    async with a_lifecycle(**addresses) as again:
        assert await keys_of(again) == [key]
    assert (key["purpose"], key["algorithm"], key["current"], key["retired_at"]) == ("team", "HS256", True, None)


@requirement("A-13.2.3")
async def test_a_signing_key_is_added_and_made_current_before_the_old_one_is_retired(lifecycle: Lifecycle) -> None:
    team_id, first = await lifecycle.team()
    added = await lifecycle.admin.post(f"{ADMIN}/keys", json={"purpose": "team"})
    assert (added.status_code, added.json()["secret"], added.json()["current"]) == (201, None, False)
    rotated = (await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")).json()["jwt"]
    assert kid_of(rotated) == kid_of(first)
    too_early = await lifecycle.admin.post(f"{ADMIN}/keys/{kid_of(first)}/retire")
    assert (too_early.status_code, too_early.json()["code"]) == (409, "key_current")
    for _ in range(2):
        made = await lifecycle.admin.post(f"{ADMIN}/keys/{added.json()['kid']}/current")
        assert (made.status_code, made.json()["current"]) == (200, True)
    rotated = (await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")).json()["jwt"]
    assert kid_of(rotated) == added.json()["kid"]
    for _ in range(2):
        retired = await lifecycle.admin.post(f"{ADMIN}/keys/{kid_of(first)}/retire")
        assert (retired.status_code, retired.json()["retired_at"] is None) == (200, False)
    revived = await lifecycle.admin.post(f"{ADMIN}/keys/{kid_of(first)}/current")
    assert (revived.status_code, revived.json()["code"]) == (409, "key_retired")
    assert [key["current"] for key in await keys_of(lifecycle)] == [False, True]
    assert (await lifecycle.admin.post(f"{ADMIN}/keys/nothing/retire")).status_code == 404


async def test_a_per_turn_key_is_shown_once_and_cannot_become_current(lifecycle: Lifecycle) -> None:
    for algorithm in ("HS256", "EdDSA"):
        added = await lifecycle.admin.post(f"{ADMIN}/keys", json={"purpose": "turn", "algorithm": algorithm})
        assert added.status_code == 201
        assert added.json()["secret"]
        current = await lifecycle.admin.post(f"{ADMIN}/keys/{added.json()['kid']}/current")
        assert (current.status_code, current.json()["code"]) == (409, "key_purpose")
    refused = await lifecycle.admin.post(f"{ADMIN}/keys", json={"purpose": "turn", "current": True})
    assert refused.status_code == 409
    assert all("secret" not in key for key in await keys_of(lifecycle))


async def test_switching_to_eddsa_publishes_public_keys_and_retires_no_old_key(addresses: dict[str, str]) -> None:
    async with a_lifecycle(**addresses) as lifecycle:
        team_id, old = await lifecycle.team()
        assert (await lifecycle.stranger.get(JWKS)).status_code == 404
    async with a_lifecycle(**addresses, jwt_algorithm="EdDSA") as lifecycle:
        signed = (await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")).json()["jwt"]
        published = await lifecycle.stranger.get(JWKS)
        assert published.headers["cache-control"] == "public, max-age=300"
        [key] = published.json()["keys"]
        assert (set(key), key["kid"]) == ({"kty", "crv", "x", "kid", "alg", "use"}, kid_of(signed))
        verified = jwt.decode(signed, jwt.PyJWK(key), algorithms=["EdDSA"], audience="mnemosyne")
        assert verified["sub"] == f"team:{team_id}"
        assert {one["kid"]: one["retired_at"] for one in await keys_of(lifecycle)}[kid_of(old)] is None


async def test_the_fernet_key_can_be_replaced(addresses: dict[str, str], postgres: PostgresServer) -> None:
    other = Fernet.generate_key().decode()
    async with a_lifecycle(**addresses) as lifecycle:
        await lifecycle.team()
    async with a_lifecycle(**addresses, fernet_keys=f"{other},{FERNET_KEY}") as lifecycle:
        assert (await lifecycle.admin.post(f"{ADMIN}/keys/reseal")).status_code == 204
    [(sealed,)] = await postgres.say("select sealed from signing_keys", addresses["postgres_url"])
    assert Fernet(other).decrypt(str(sealed))
    async with a_lifecycle(**addresses, fernet_keys=other) as lifecycle:
        await lifecycle.team()
    async with a_lifecycle(**addresses, fernet_keys=FERNET_KEY) as lifecycle:
        team = {"id": "a3f1d5c0-0000-4000-8000-000000000000", "name": "x"}
        failed = await lifecycle.daedalus.post(TEAMS, json=team)
        assert (failed.status_code, failed.json()["code"]) == (500, "sealed_by_another")
        assert (await lifecycle.daedalus.get(f"{TEAMS}{team['id']}/")).status_code == 404
