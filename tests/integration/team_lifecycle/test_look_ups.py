"""How team-lifecycle answers look-ups, and what the cache has once a change is confirmed."""

import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any

import httpx
import jwt
import pytest
from cryptography.fernet import Fernet
from tests.conftest import Connecting
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.lab import ADMIN, FERNET_KEY, TEAMS, Lifecycle
from tests.postgres import PostgresServer
from tests.requirements import requirement

from pallas_bus.ask import ask
from pallas_bus.connection import Bus
from pallas_contracts.auth import (
    KeyRecord,
    LibraryRecord,
    LookedUp,
    LookupKey,
    Lookups,
    Record,
    TeamRecord,
    TokenRecord,
)
from pallas_contracts.catalog import LOOK_UP
from pallas_contracts.errors import Rejected, Unavailable
from pallas_contracts.opaque import token_digest
from pallas_lookups.cache import LookupCache, open_cache


@pytest.fixture
async def resolver(bus: Connecting, lifecycle: Lifecycle) -> Bus:
    """The connection of a resolver, once team-lifecycle answers."""
    resolver_bus = await bus("auth-resolver", url=lifecycle.settings["nats_url"])

    async def is_answered() -> bool:
        with suppress(Unavailable):
            await looked_up(resolver_bus)
            return True
        return False

    await until(is_answered)
    return resolver_bus


@pytest.fixture
async def cache(lifecycle: Lifecycle) -> AsyncGenerator[LookupCache]:
    """The cache as a resolver sees it."""
    async with open_cache(lifecycle.settings["redis_url"]) as cache:
        yield cache


def team(team_id: str) -> LookupKey:
    return LookupKey(kind="team", id=team_id)


def key(kid: str) -> LookupKey:
    return LookupKey(kind="key", id=kid)


def library(uid: str) -> LookupKey:
    return LookupKey(kind="library", id=uid)


def token(text: str) -> LookupKey:
    return LookupKey(kind="token", id=token_digest(text))


async def looked_up(resolver: Bus, *wanted: LookupKey) -> LookedUp:
    return await ask(resolver, LOOK_UP, Lookups(wanted=wanted))


async def team_record(resolver: Bus, team_id: str) -> TeamRecord:
    [record] = (await looked_up(resolver, team(team_id))).records
    assert isinstance(record, TeamRecord)
    return record


async def token_record(resolver: Bus, text: str) -> TokenRecord:
    [record] = (await looked_up(resolver, token(text))).records
    assert isinstance(record, TokenRecord)
    return record


async def identities_of(resolver: Bus, *uids: str) -> dict[str, str | None]:
    records = (await looked_up(resolver, *map(library, uids))).records
    return {record.uid: record.identity for record in records if isinstance(record, LibraryRecord)}


@requirement("A-4.1.11", "A-5.3.5", "A-13.5.2", "A-3.1.2")
async def test_a_team_reads_the_libraries_of_its_workspaces_and_no_others(lifecycle: Lifecycle, resolver: Bus) -> None:
    team_id, jwt_text = await lifecycle.team("Kottos")
    for uid, workspace in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("none", None)):
        await lifecycle.library(uid, workspace)
    assert (await team_record(resolver, team_id)).libraries == ()
    await lifecycle.attach(team_id, "a", "later")
    jti = jwt.decode(jwt_text, options={"verify_signature": False})["jti"]
    identities = await identities_of(resolver, "a1", "a2")
    expected = TeamRecord(id=team_id, name="Kottos", active=True, active_jti=jti, libraries=("a1", "a2"))
    expected = expected.model_copy(update={"identities": identities})
    assert await team_record(resolver, team_id) == expected
    await lifecycle.library("l1", "later")
    assert (await team_record(resolver, team_id)).libraries == ("a1", "a2", "l1")
    await lifecycle.admin.put(f"{ADMIN}/libraries/a1/workspace", json={"workspace_id": "b"})
    assert (await team_record(resolver, team_id)).libraries == ("a2", "l1")
    await lifecycle.daedalus.delete(f"{TEAMS}{team_id}/")
    deleted = await team_record(resolver, team_id)
    assert (deleted.active, deleted.libraries) == (False, ())


@requirement("A-4.1.7", "A-14.1.5", "A-13.5.1")
async def test_a_token_reads_its_allowed_libraries_and_no_others(lifecycle: Lifecycle, resolver: Bus) -> None:
    await lifecycle.user("olga")
    await lifecycle.library("one", owner="olga")
    await lifecycle.library("two", owner="olga")
    texts = [(await lifecycle.token("olga", *libraries)).json()["token"] for libraries in ((), ("one",), ("two",))]
    records = [await token_record(resolver, text) for text in texts]
    assert [record.libraries for record in records] == [(), ("one",), ("two",)]
    assert {(record.user, record.user_active, record.revoked) for record in records} == {("olga", True, False)}
    await lifecycle.admin.patch(f"{ADMIN}/users/olga", json={"active": False})
    assert (await token_record(resolver, texts[1])).user_active is False
    await lifecycle.admin.delete(f"{ADMIN}/tokens/{records[1].id}")
    assert (await token_record(resolver, texts[1])).revoked is True


async def test_a_library_that_reuses_a_deleted_uid_has_a_new_identity_for_every_reader_at_once(
    lifecycle: Lifecycle, resolver: Bus, cache: LookupCache, postgres: PostgresServer
) -> None:
    await lifecycle.user("olga")
    team_id, _ = await lifecycle.team()
    await lifecycle.attach(team_id, "ws")

    async def identities_everywhere(text: str) -> list[str | None]:
        """The identity by the library, and by the team and the token as a resolver with a warm cache sees them."""
        wanted = (team(team_id), token(text))
        snapshot, answer = await cache.read(wanted), await looked_up(resolver, *wanted)
        await cache.fill(snapshot, answer.version, dict(zip(wanted, answer.records, strict=True)))
        others = await read_from_cache(cache, *wanted)
        read = [each.identities.get("lib") for each in others if isinstance(each, TeamRecord | TokenRecord)]
        assert len(read) == 2
        return [*(await identities_of(resolver, "lib")).values(), *read]

    made: list[str] = []
    for _ in range(2):
        await lifecycle.library("lib", "ws", owner="olga")
        text = (await lifecycle.token("olga", "lib")).json()["token"]
        [identity] = set(await identities_everywhere(text))
        assert identity
        made.append(identity)
        await lifecycle.admin.put(f"{ADMIN}/libraries/lib/name", json={"name": "Other"})
        assert set(await identities_everywhere(text)) == {identity}
        assert (await lifecycle.admin.delete(f"{ADMIN}/libraries/lib")).status_code == 204
        assert (await cache.read([library("lib")])).missing == (library("lib"),)
        assert (await looked_up(resolver, library("lib"))).records == (None,)
    assert made[0] != made[1]
    events = (await lifecycle.admin.get(f"{ADMIN}/changes?limit=1000")).json()["items"]
    identities = [
        event["data"].get("identity") for event in events if (event["kind"], event["id"]) == ("library", "lib")
    ]
    identities = identities[identities.index(made[0]) :]
    assert identities == [made[0]] * 3 + [made[1]] * 3
    await lifecycle.library("lib", "ws", owner="olga")
    text = (await lifecycle.token("olga", "lib")).json()["token"]
    await postgres.say("update libraries set identity = null", lifecycle.settings["postgres_url"])
    answer = (await looked_up(resolver, library("lib"), team(team_id), token(text))).records
    assert answer[0] == LibraryRecord(uid="lib")
    assert [each.libraries for each in answer if isinstance(each, TeamRecord | TokenRecord)] == [("lib",)] * 2


async def test_a_key_record_has_the_purpose_and_the_encrypted_secret(lifecycle: Lifecycle, resolver: Bus) -> None:
    _, signed = await lifecycle.team()
    turn = (await lifecycle.admin.post(f"{ADMIN}/keys", json={"purpose": "turn"})).json()
    public = (await lifecycle.admin.post(f"{ADMIN}/keys", json={"purpose": "turn", "algorithm": "EdDSA"})).json()
    kid = jwt.get_unverified_header(signed)["kid"]
    found = (await looked_up(resolver, key(kid), key(turn["kid"]), key(public["kid"]))).records
    assert all(isinstance(record, KeyRecord) and not record.retired for record in found)
    first, second, third = (record for record in found if isinstance(record, KeyRecord))
    assert (first.purposes, second.purposes, third.purposes) == (("team",), ("turn",), ("turn",))
    secret = Fernet(FERNET_KEY).decrypt(first.secret).decode()
    assert jwt.decode(signed, bytes.fromhex(secret), algorithms=["HS256"], audience="mnemosyne")
    assert Fernet(FERNET_KEY).decrypt(second.secret).decode() == turn["secret"]
    assert third.secret.startswith("-----BEGIN PUBLIC KEY")


async def test_records_are_of_one_version_in_the_order_asked_for_and_none_where_missing(
    lifecycle: Lifecycle, resolver: Bus
) -> None:
    version = (await looked_up(resolver)).version + 1
    team_id, _ = await lifecycle.team()
    strange = [team("x"), team(str(uuid.uuid4())), team(team_id.upper()), key("a\x00b"), key("'; --"), token("?")]
    answer = await looked_up(resolver, strange[0], team(team_id), *strange[1:], team(team_id))
    assert answer.version == version
    known = answer.records[1]
    assert isinstance(known, TeamRecord)
    assert answer.records == (None, known, *[None] * 5, known)
    assert await looked_up(resolver) == LookedUp(version=version, records=())
    with pytest.raises(Rejected):
        await looked_up(resolver, *[team("x")] * 1001)


async def read_from_cache(cache: LookupCache, *wanted: LookupKey) -> Sequence[Record | None]:
    """The records in Redis. Fails if one is missing."""
    snapshot = await cache.read(wanted)
    assert snapshot.missing == (), "everything that was changed was put into the cache"
    return [snapshot.records[one] for one in wanted]


@requirement("A-7.2.2", "A-7.4.2", "A-13.2.3", "A-14.3.3")
async def test_every_change_is_in_the_cache_when_it_is_confirmed(
    lifecycle: Lifecycle, resolver: Bus, cache: LookupCache
) -> None:
    await lifecycle.user("olga", "max")
    await lifecycle.library("lib", "ws", owner="olga")
    await lifecycle.grant("lib", "max", "manager")
    managed = (await lifecycle.token("max", "lib")).json()["token"]
    team_id, signed = await lifecycle.team()
    text, kid = (await lifecycle.token("olga", "lib")).json(), jwt.get_unverified_header(signed)["kid"]
    new = (await lifecycle.admin.post(f"{ADMIN}/keys", json={"purpose": "team", "current": True})).json()["kid"]
    wanted = (team(team_id), token(text["token"]), token(managed), key(kid), key(new))
    admin, daedalus = lifecycle.admin, lifecycle.daedalus
    changes: list[tuple[Callable[[str], LookupKey], httpx.AsyncClient, str, str, Any]] = [
        (team, daedalus, "PUT", f"{TEAMS}{team_id}/workspaces/", {"workspace_ids": ["ws"]}),
        (team, daedalus, "POST", f"{TEAMS}{team_id}/rotate/", None),
        (team, admin, "PUT", f"{ADMIN}/libraries/lib/workspace", {"workspace_id": "other"}),
        (team, admin, "PUT", f"{ADMIN}/libraries/lib/workspace", {"workspace_id": "ws"}),
        (team, daedalus, "PUT", f"{TEAMS}{team_id}/workspaces/", {"workspace_ids": []}),
        (token, admin, "PUT", f"{ADMIN}/tokens/{text['id']}/libraries", {"allowed_libraries": []}),
        (token, admin, "PUT", f"{ADMIN}/tokens/{text['id']}/libraries", {"allowed_libraries": ["lib"]}),
        (token, admin, "PATCH", f"{ADMIN}/users/olga", {"active": False}),
        (token, admin, "PATCH", f"{ADMIN}/users/olga", {"active": True}),
        (token, admin, "DELETE", f"{ADMIN}/memberships/lib/max/manager", None),
        (key, admin, "POST", f"{ADMIN}/keys/{kid}/retire", None),
        (token, admin, "DELETE", f"{ADMIN}/libraries/lib", None),
        (token, admin, "DELETE", f"{ADMIN}/tokens/{text['id']}", None),
        (team, daedalus, "DELETE", f"{TEAMS}{team_id}/", None),
    ]
    for _, client, method, path, body in changes:
        before = await looked_up(resolver, *wanted)
        snapshot = await cache.read(wanted)
        await cache.fill(snapshot, before.version, dict(zip(wanted, before.records, strict=True)))
        assert list(before.records) == await read_from_cache(cache, *wanted), "the cache is warm"
        answer = await client.request(method, path, json=body)
        assert answer.status_code in (200, 204), (path, answer.text)
        after = await looked_up(resolver, *wanted)
        assert after.records != before.records, path
        assert await read_from_cache(cache, *wanted) == list(after.records), path
