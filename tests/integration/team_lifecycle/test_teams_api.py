"""The team API as Daedalus calls it (contract, section 7)."""

import asyncio
import time
import uuid
from datetime import datetime

import jwt
import pytest
from tests.integration.team_lifecycle.lab import ADMIN, TEAMS, Lifecycle, a_lifecycle
from tests.postgres import PostgresServer
from tests.requirements import requirement

WORKSPACES = ["ws_abc", "ws_def"]


def claims_of(token: str) -> dict[str, object]:
    return jwt.decode(token, options={"verify_signature": False})


@requirement("A-7.1.1", "A-3.2.3", "A-5.2.1", "A-5.2.2", "A-5.2.3", "A-4.1.8")
async def test_creating_a_team_returns_a_jwt_with_the_claims_of_the_contract(lifecycle: Lifecycle) -> None:
    team_id = str(uuid.uuid4())
    created = await lifecycle.daedalus.post(TEAMS, json={"id": team_id, "name": "Kottos"})
    assert (created.status_code, set(created.json())) == (201, {"id", "name", "jwt"})
    assert (created.json()["id"], created.json()["name"]) == (team_id, "Kottos")
    claims = claims_of(created.json()["jwt"])
    assert set(claims) == {"iss", "aud", "sub", "typ", "iat", "exp", "jti"}
    assert claims["iss"] == claims["aud"] == "mnemosyne"
    assert (claims["sub"], claims["typ"]) == (f"team:{team_id}", "team")
    issued, expires = claims["iat"], claims["exp"]
    assert isinstance(issued, int)
    assert isinstance(expires, int)
    assert abs(issued - time.time()) < 60
    assert (expires - issued) // 86_400 == 3652
    header = jwt.get_unverified_header(created.json()["jwt"])
    keys = (await lifecycle.admin.get(f"{ADMIN}/keys")).json()["items"]
    assert (header["alg"], header["kid"]) == ("HS256", keys[0]["kid"])


@requirement("A-7.1.2", "A-7.1.3")
async def test_a_repeated_create_returns_the_team_without_a_jwt_and_changes_nothing(lifecycle: Lifecycle) -> None:
    team_id, token = await lifecycle.team("Kottos")
    again = await lifecycle.daedalus.post(TEAMS, json={"id": team_id, "name": "Another"})
    shown = await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")
    assert (again.status_code, again.json()) == (200, shown.json())
    assert shown.json()["name"] == "Kottos"
    assert "jwt" not in again.json()
    assert token not in again.text + shown.text
    assert shown.json()["active_jti"] == claims_of(token)["jti"]


@requirement("A-4.1.8")
async def test_a_team_is_renamed_and_keeps_its_jwt(lifecycle: Lifecycle) -> None:
    team_id, token = await lifecycle.team("Kottos")
    renamed = await lifecycle.daedalus.put(f"{TEAMS}{team_id}/name/", json={"name": "Briareos"})
    shown = (await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")).json()
    assert (renamed.status_code, renamed.json()) == (200, shown)
    assert (shown["name"], shown["active_jti"]) == ("Briareos", claims_of(token)["jti"])
    await lifecycle.daedalus.delete(f"{TEAMS}{team_id}/")
    assert (await lifecycle.daedalus.put(f"{TEAMS}{team_id}/name/", json={"name": "x"})).status_code == 409


@requirement("A-4.1.9")
async def test_a_team_has_a_name_of_at_most_200_characters_and_times_of_creation_and_change(
    lifecycle: Lifecycle, postgres: PostgresServer
) -> None:
    async def times() -> tuple[datetime, datetime]:
        [row] = await postgres.say("select created_at, updated_at from teams", lifecycle.settings["postgres_url"])
        made, changed = row
        assert isinstance(made, datetime)
        assert isinstance(changed, datetime)
        return made, changed

    team_id, _ = await lifecycle.team("é" * 200)
    too_long = await lifecycle.daedalus.post(TEAMS, json={"id": str(uuid.uuid4()), "name": "é" * 201})
    assert (too_long.status_code, too_long.json()["field"]) == (422, "name")
    made, changed = await times()
    assert made == changed
    assert (await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")).status_code == 200
    assert (await times())[0] == made < (await times())[1]


async def test_every_spelling_of_a_uuid_names_the_same_team(lifecycle: Lifecycle) -> None:
    team_id, _ = await lifecycle.team()
    for spelling in (team_id.upper(), team_id.replace("-", "")):
        assert (await lifecycle.daedalus.get(f"{TEAMS}{spelling}/")).json()["id"] == team_id
        assert (await lifecycle.daedalus.post(TEAMS, json={"id": spelling, "name": "x"})).status_code == 200


async def test_concurrent_creates_of_one_id_make_one_team_and_one_jwt(lifecycle: Lifecycle) -> None:
    team_id = str(uuid.uuid4())
    async with a_lifecycle(**lifecycle.settings) as replica:
        asked = [client.post(TEAMS, json={"id": team_id, "name": "K"}) for client in [lifecycle.daedalus] * 5]
        asked += [client.post(TEAMS, json={"id": team_id, "name": "K"}) for client in [replica.daedalus] * 5]
        answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    [token] = [answer.json()["jwt"] for answer in answers if "jwt" in answer.json()]
    shown = (await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")).json()
    assert shown["active_jti"] == claims_of(token)["jti"]


@requirement("A-7.2.1", "A-13.2.2")
async def test_a_deleted_team_is_inactive_and_cannot_be_reactivated(lifecycle: Lifecycle) -> None:
    team_id, _ = await lifecycle.team()
    await lifecycle.attach(team_id, "ws_abc")
    for _ in range(2):
        deleted = await lifecycle.daedalus.delete(f"{TEAMS}{team_id}/")
        assert (deleted.status_code, deleted.content) == (204, b"")
    before = (await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")).json()
    assert before["active"] is False
    posted = await lifecycle.daedalus.post(TEAMS, json={"id": team_id, "name": "Kottos"})
    assert (posted.status_code, posted.json()) == (200, before)
    assert (await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")).status_code == 409
    reassigned = await lifecycle.daedalus.put(f"{TEAMS}{team_id}/workspaces/", json={"workspace_ids": ["ws_x"]})
    assert (reassigned.status_code, reassigned.json()["code"]) == (409, "team_deleted")
    assert (await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")).json() == before


@requirement("A-7.3.1", "A-7.3.2", "A-7.3.3", "A-4.1.10", "A-14.1.6")
async def test_workspaces_are_replaced_not_merged_and_may_be_unknown(lifecycle: Lifecycle) -> None:
    team_id, _ = await lifecycle.team()
    path = f"{TEAMS}{team_id}/workspaces/"
    for wanted in (WORKSPACES, WORKSPACES, ["ws_def", "ws_new"], []):
        put = await lifecycle.daedalus.put(path, json={"workspace_ids": wanted})
        assert (put.status_code, put.json()) == (200, {"workspace_ids": wanted})
        assert (await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")).json()["workspace_ids"] == wanted
    twice = await lifecycle.daedalus.put(path, json={"workspace_ids": ["b", "a", "b"]})
    assert twice.json() == {"workspace_ids": ["a", "b"]}


@requirement("A-7.4.1")
async def test_rotating_returns_a_jwt_with_a_new_jti(lifecycle: Lifecycle) -> None:
    team_id, first = await lifecycle.team()
    rotated = await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")
    assert (rotated.status_code, set(rotated.json())) == (200, {"jwt"})
    jti = claims_of(rotated.json()["jwt"])["jti"]
    assert jti != claims_of(first)["jti"]
    assert (await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")).json()["active_jti"] == jti


@requirement("A-7.5.1")
async def test_a_team_is_shown_with_exactly_the_fields_of_the_contract(lifecycle: Lifecycle) -> None:
    team_id, _ = await lifecycle.team()
    shown = await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")
    assert shown.status_code == 200
    assert set(shown.json()) == {"id", "name", "active", "active_jti", "workspace_ids"}


@pytest.mark.parametrize("team_id", [str(uuid.UUID(int=1)), "a3f1", "%00", "x" * 300])
async def test_an_unknown_team_is_404(lifecycle: Lifecycle, team_id: str) -> None:
    calls = {
        "GET": f"{TEAMS}{team_id}/",
        "DELETE": f"{TEAMS}{team_id}/",
        "POST": f"{TEAMS}{team_id}/rotate/",
        "PUT": f"{TEAMS}{team_id}/workspaces/",
    }
    for method, path in calls.items():
        body = {"workspace_ids": ["ws"]} if method == "PUT" else None
        answer = await lifecycle.daedalus.request(method, path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "no_team"), method


async def test_the_trailing_slash_is_part_of_the_path(lifecycle: Lifecycle) -> None:
    team_id, _ = await lifecycle.team()
    for path in (TEAMS, f"{TEAMS}{team_id}/", f"{TEAMS}{team_id}/rotate/", f"{TEAMS}{team_id}/workspaces/"):
        assert (await lifecycle.daedalus.request("POST", path[:-1], json={})).status_code == 404


@requirement("A-13.2.1")
async def test_a_team_without_workspaces_stays_active(lifecycle: Lifecycle) -> None:
    team_id, _ = await lifecycle.team()
    await lifecycle.attach(team_id, "ws_abc")
    await lifecycle.attach(team_id)
    shown = (await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")).json()
    assert (shown["active"], shown["workspace_ids"]) == (True, [])
