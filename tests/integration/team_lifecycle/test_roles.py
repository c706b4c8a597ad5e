"""Users, libraries, roles and tokens: who may do what (contract, sections 4.1 and 9.6)."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.team_lifecycle.lab import ADMIN, Lifecycle, acting
from tests.requirements import requirement

from pallas_contracts.opaque import is_opaque_token

ROLES = ["owner", "manager", "reader"]


@pytest.fixture
async def people(lifecycle: Lifecycle) -> Lifecycle:
    """Library `lib` with an owner `olga`, a manager `max`, a reader `rita`; `uwe` has no role there."""
    await lifecycle.user("olga", "max", "rita", "uwe")
    await lifecycle.library("lib", "ws", owner="olga")
    assert (await lifecycle.grant("lib", "max", "manager")).status_code == 201
    assert (await lifecycle.grant("lib", "rita", "reader")).status_code == 201
    return lifecycle


async def roles_in(lifecycle: Lifecycle, library: str = "lib") -> set[tuple[str, str]]:
    listed = (await lifecycle.admin.get(f"{ADMIN}/memberships", params={"library": library})).json()["items"]
    return {(one["user_name"], one["role"]) for one in listed}


@requirement("A-4.1.2", "A-4.1.3", "A-4.1.4", "A-4.1.5", "A-14.1.4")
@pytest.mark.parametrize(
    ("user", "may"), [("olga", ROLES), ("max", ["reader"]), ("rita", []), ("uwe", []), (None, ROLES)]
)
async def test_each_role_may_grant_and_revoke_exactly_the_roles_of_the_contract(
    people: Lifecycle, user: str | None, may: list[str]
) -> None:
    for role in ROLES:
        granted = await people.grant("lib", "uwe", role, by=user)
        assert granted.status_code == (201 if role in may else 403), role
        assert (("uwe", role) in await roles_in(people)) == (role in may)
        await people.grant("lib", "uwe", role)
        if user != "uwe":
            revoked = await people.revoke("lib", "uwe", role, by=user)
            assert revoked.status_code == (204 if role in may else 403), role
        await people.revoke("lib", "uwe", role)
    if user in ("max", "rita", "uwe"):
        assert (await people.revoke("lib", "olga", "owner", by=user)).status_code == 403


@requirement("A-4.1.1")
async def test_a_user_has_each_role_on_a_library_at_most_once(people: Lifecycle) -> None:
    assert (await people.grant("lib", "rita", "reader")).status_code == 200
    assert (await people.grant("lib", "rita", "manager")).status_code == 201
    assert {role for user, role in await roles_in(people) if user == "rita"} == {"reader", "manager"}
    assert (await people.grant("nothing", "rita", "reader")).json()["code"] == "no_library"
    assert (await people.grant("lib", "nobody", "reader")).json()["code"] == "no_user"
    assert (await people.revoke("lib", "uwe", "reader")).json()["code"] == "no_membership"


async def test_users_may_give_up_their_roles_but_the_last_owner_stays(people: Lifecycle) -> None:
    assert (await people.revoke("lib", "rita", "reader", by="rita")).status_code == 204
    for by in (None, "olga"):
        kept = await people.revoke("lib", "olga", "owner", by=by)
        assert (kept.status_code, kept.json()["code"]) == (409, "last_owner")
    await people.grant("lib", "uwe", "owner", by="olga")
    assert (await people.revoke("lib", "olga", "owner", by="uwe")).status_code == 204
    assert await roles_in(people) == {("uwe", "owner"), ("max", "manager")}


@requirement("A-4.1.3", "A-4.1.4")
async def test_only_owners_rename_and_delete_a_library(people: Lifecycle) -> None:
    calls = [
        ("PUT", f"{ADMIN}/libraries/lib/name", {"name": "Other"}),
        ("DELETE", f"{ADMIN}/libraries/lib", None),
    ]
    for method, path, body in calls:
        for user in ("max", "rita", "uwe", "nobody"):
            assert (await people.admin.request(method, path, json=body, headers=acting(user))).status_code == 403
        done = await people.admin.request(method, path, json=body, headers=acting("olga"))
        assert done.status_code in (200, 204)
    assert (await people.admin.get(f"{ADMIN}/libraries")).json()["items"] == []


async def test_only_admins_put_a_library_under_a_workspace(people: Lifecycle) -> None:
    async def places() -> dict[str, str | None]:
        listed = (await people.admin.get(f"{ADMIN}/libraries")).json()["items"]
        return {one["uid"]: one["workspace_id"] for one in listed}

    make, move = f"{ADMIN}/libraries", f"{ADMIN}/libraries/lib/workspace"
    for method, path, body in [
        ("PUT", move, {"workspace_id": "elsewhere"}),
        ("PUT", move, {"workspace_id": "ws"}),
        ("PUT", move, {"workspace_id": None}),
        ("POST", make, {"uid": "mine", "name": "Mine", "workspace_id": "ws"}),
        ("POST", make, {"uid": "lib", "name": "lib", "workspace_id": "ws"}),
    ]:
        for user in ("olga", "max", "nobody"):
            answer = await people.admin.request(method, path, json=body, headers=acting(user))
            assert (answer.status_code, answer.json()["code"]) == (403, "admins_only")
            assert "workspace" in answer.json()["error"]
    assert await places() == {"lib": "ws"}
    assert (await people.admin.put(move, json={"workspace_id": "elsewhere"})).status_code == 200
    assert await places() == {"lib": "elsewhere"}


async def test_a_user_who_creates_a_library_becomes_its_owner_and_cannot_name_another(people: Lifecycle) -> None:
    body = {"uid": "mine", "name": "Mine"}
    made = await people.admin.post(f"{ADMIN}/libraries", json=body, headers=acting("uwe"))
    assert made.status_code == 201
    assert await roles_in(people, "mine") == {("uwe", "owner")}
    again = await people.admin.post(f"{ADMIN}/libraries", json=body, headers=acting("uwe"))
    assert (again.status_code, again.json()) == (200, made.json())
    other = await people.admin.post(f"{ADMIN}/libraries", json={**body, "name": "Other"})
    assert (other.status_code, other.json()["code"]) == (409, "library_exists")
    foisted = {"uid": "other", "name": "x", "owner": "rita"}
    assert (await people.admin.post(f"{ADMIN}/libraries", json=foisted, headers=acting("uwe"))).status_code == 403


@pytest.mark.parametrize("path", ["users", "libraries", "memberships", "tokens", "keys", "teams/", "changes"])
async def test_unfiltered_lists_are_for_admins_only(people: Lifecycle, path: str) -> None:
    assert (await people.admin.get(f"{ADMIN}/{path}", headers=acting("olga"))).status_code == 403
    assert (await people.admin.get(f"{ADMIN}/{path}")).status_code == 200


@requirement("A-4.1.6", "A-9.6.1", "A-14.1.4")
async def test_a_token_may_name_only_libraries_that_its_user_owns_or_manages(people: Lifecycle) -> None:
    scopes = {
        user: (await people.admin.get(f"{ADMIN}/users/{user}/scopes")).json() for user in ("olga", "max", "rita", "uwe")
    }
    assert scopes == {"olga": ["lib"], "max": ["lib"], "rita": [], "uwe": []}
    for user, libraries in scopes.items():
        for by in (None, user):
            made = await people.token(user, "lib", by=by)
            assert made.status_code == (201 if libraries else 403), user
    missing = await people.token("olga", "lib", "nowhere")
    assert (missing.status_code, missing.json()["code"]) == (403, "not_scoped")
    assert "nowhere" in missing.json()["error"]
    assert (await people.token("max", "lib", by="olga")).json()["code"] == "not_yours"


@requirement("A-9.6.2")
async def test_a_token_is_shown_once(people: Lifecycle) -> None:
    made = (await people.token("olga", "lib")).json()
    assert is_opaque_token(made["token"])
    shown = (await people.admin.get(f"{ADMIN}/tokens/{made['id']}")).json()
    assert shown == {name: value for name, value in made.items() if name != "token"}
    [listed] = (await people.admin.get(f"{ADMIN}/tokens", params={"user": "olga"})).json()["items"]
    assert listed == shown
    assert (await people.admin.get(f"{ADMIN}/tokens/{made['id']}", headers=acting("max"))).status_code == 403


@requirement("A-4.1.6")
async def test_revoking_a_role_removes_the_library_from_the_users_tokens_for_good(people: Lifecycle) -> None:
    await people.grant("lib", "max", "owner")
    token_id = (await people.token("max", "lib")).json()["id"]
    other = (await people.token("olga", "lib")).json()["id"]

    async def allowed(one: str) -> list[str]:
        return (await people.admin.get(f"{ADMIN}/tokens/{one}")).json()["allowed_libraries"]

    await people.revoke("lib", "max", "manager")
    assert await allowed(token_id) == ["lib"], "still an owner"
    await people.revoke("lib", "max", "owner")
    assert await allowed(token_id) == []
    await people.grant("lib", "max", "owner")
    assert await allowed(token_id) == []
    assert await allowed(other) == ["lib"]
    again = await people.admin.put(f"{ADMIN}/tokens/{token_id}/libraries", json={"allowed_libraries": ["lib"]})
    assert again.json()["allowed_libraries"] == ["lib"]


async def test_a_revoked_token_stays_revoked(people: Lifecycle) -> None:
    made = (await people.token("olga", "lib")).json()
    path = f"{ADMIN}/tokens/{made['id']}"
    assert (await people.admin.delete(path, headers=acting("uwe"))).status_code == 403
    for _ in range(2):
        assert (await people.admin.delete(path, headers=acting("olga"))).status_code == 204
    assert (await people.admin.get(path)).json()["revoked_at"] is not None
    changed = await people.admin.put(f"{path}/libraries", json={"allowed_libraries": []})
    assert (changed.status_code, changed.json()["code"]) == (409, "token_revoked")
    unknown = f"{ADMIN}/tokens/{uuid.uuid4()}"
    assert (await people.admin.delete(unknown)).status_code == 404


async def test_a_token_has_the_expiry_it_was_given(people: Lifecycle) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    made = await people.token("olga", "lib", expires_at=tomorrow.isoformat())
    assert datetime.fromisoformat(made.json()["expires_at"]) == tomorrow


async def test_an_inactive_user_can_no_longer_act(people: Lifecycle) -> None:
    patched = await people.admin.patch(f"{ADMIN}/users/olga", json={"active": False})
    assert patched.json()["active"] is False
    assert (await people.grant("lib", "uwe", "reader", by="olga")).json()["code"] == "user_disabled"
    assert (await people.token("olga", "lib", by="olga")).status_code == 403
    assert (await people.admin.patch(f"{ADMIN}/users/nobody", json={"active": True})).status_code == 404


async def test_lists_are_paged_without_gaps_or_duplicates(lifecycle: Lifecycle) -> None:
    earlier = (await lifecycle.admin.get(f"{ADMIN}/changes", params={"limit": 1000})).json()["items"][-1]["number"]
    await lifecycle.user(*(f"u{number}" for number in range(5)))
    await lifecycle.library("lib", owner="u0")
    for number in range(5):
        await lifecycle.grant("lib", f"u{number}", "reader")
        await lifecycle.team()
        await lifecycle.token("u0", "lib")
    for listing, count in (("users", 5), ("memberships", 6), ("teams/", 5), ("tokens", 5), ("changes", 21)):
        items: list[object] = []
        after: str | None = str(earlier) if listing == "changes" else ""
        while after is not None:
            page = await lifecycle.admin.get(
                f"{ADMIN}/{listing}", params={"limit": 2, **({"after": after} if after else {})}
            )
            items += page.json()["items"]
            after = page.json()["next"]
        assert len(items) == len({str(item) for item in items}) == count, listing
