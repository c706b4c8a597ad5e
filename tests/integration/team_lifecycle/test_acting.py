"""Admins who act for a user have that user's rights, on every admin route."""

import uuid
from typing import Any

import pytest
from tests.integration.team_lifecycle.lab import ADMIN, TEAMS, Lifecycle, acting

BODIES: dict[str, Any] = {
    "POST /users": {"name": "new"},
    "PATCH /users/{user}": {"active": False},
    "POST /libraries": {"uid": "new", "name": "New", "owner": "olga"},
    "PUT /libraries/{library}/name": {"name": "Other"},
    "PUT /libraries/{library}/workspace": {"workspace_id": "elsewhere"},
    "POST /tokens": {"user": "olga", "name": "a token", "allowed_libraries": ["lib"]},
    "PUT /tokens/{token_id}/libraries": {"allowed_libraries": []},
    "POST /keys": {"purpose": "turn"},
    "POST /teams/": {"id": str(uuid.uuid4()), "name": "Briareos"},
    "PUT /teams/{team_id}/workspaces/": {"workspace_ids": ["ws"]},
}
TEAM_ROUTES = {
    ("GET", "/teams/"),
    ("POST", "/teams/"),
    ("GET", "/teams/{team_id}/"),
    ("DELETE", "/teams/{team_id}/"),
    ("PUT", "/teams/{team_id}/workspaces/"),
    ("POST", "/teams/{team_id}/rotate/"),
}


async def operations(lifecycle: Lifecycle) -> list[tuple[str, str]]:
    """Method and path of every admin route, from the service's OpenAPI document."""
    paths = (await lifecycle.stranger.get("/openapi.json")).json()["paths"]
    found = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    return [(method, path.removeprefix(ADMIN)) for method, path in found if path.startswith(ADMIN)]


@pytest.fixture
async def known(lifecycle: Lifecycle) -> dict[str, str]:
    """The ids for paths: a team, and a library of `olga` with a token. `ann` has no role, `ida` is inactive."""
    await lifecycle.user("olga", "ann", "ida")
    await lifecycle.library("lib", "ws", owner="olga")
    await lifecycle.library("idas", owner="ida")
    assert (await lifecycle.token("ida", "idas")).status_code == 201
    token_id = (await lifecycle.token("olga", "lib")).json()["id"]
    team_id, _ = await lifecycle.team()
    kid = (await lifecycle.admin.post(f"{ADMIN}/keys", json={"purpose": "turn"})).json()["kid"]
    assert (await lifecycle.admin.patch(f"{ADMIN}/users/ida", json={"active": False})).status_code == 200
    return {"user": "olga", "library": "lib", "role": "owner", "token_id": token_id, "team_id": team_id, "kid": kid}


async def changes(lifecycle: Lifecycle) -> list[dict[str, Any]]:
    return (await lifecycle.admin.get(f"{ADMIN}/changes", params={"limit": 1000})).json()["items"]


@pytest.mark.parametrize("user", ["ann", "ida", "nobody"])
async def test_no_route_lets_a_user_without_a_role_see_or_change_anything(
    lifecycle: Lifecycle, known: dict[str, str], user: str
) -> None:
    before, routes = await changes(lifecycle), await operations(lifecycle)
    assert set(routes) >= TEAM_ROUTES
    for method, path in routes:
        answer = await lifecycle.admin.request(
            method, f"{ADMIN}{path.format_map(known)}", json=BODIES.get(f"{method} {path}"), headers=acting(user)
        )
        assert answer.status_code == 403, (method, path, answer.text)
        if path.startswith("/teams/"):
            assert answer.json()["code"] == "admins_only", (method, path)
    assert await changes(lifecycle) == before


async def test_team_routes_accept_admins_who_act_for_no_user(lifecycle: Lifecycle, known: dict[str, str]) -> None:
    for method, path in sorted(TEAM_ROUTES, key=lambda route: (route[0] == "DELETE", route)):
        answer = await lifecycle.admin.request(
            method, f"{ADMIN}{path.format_map(known)}", json=BODIES.get(f"{method} {path}")
        )
        assert answer.is_success, (method, path, answer.text)
    assert {one["actor"] for one in (await changes(lifecycle))[-4:]} == {"admin"}


async def test_an_inactive_user_can_neither_list_tokens_nor_give_up_a_role(
    lifecycle: Lifecycle, known: dict[str, str]
) -> None:
    await lifecycle.grant(known["library"], "ida", "reader")
    listed = await lifecycle.admin.get(f"{ADMIN}/tokens", params={"user": "ida"}, headers=acting("ida"))
    assert (listed.status_code, listed.json()["code"]) == (403, "user_disabled")
    given_up = await lifecycle.revoke(known["library"], "ida", "reader", by="ida")
    assert (given_up.status_code, given_up.json()["code"]) == (403, "user_disabled")


async def test_the_team_api_ignores_the_header_that_names_a_user(lifecycle: Lifecycle, known: dict[str, str]) -> None:
    shown = await lifecycle.daedalus.get(f"{TEAMS}{known['team_id']}/", headers=acting("ann"))
    assert shown.status_code == 200
    rotated = await lifecycle.daedalus.post(f"{TEAMS}{known['team_id']}/rotate/", headers=acting("ann"))
    assert rotated.status_code == 200
    assert (await changes(lifecycle))[-1]["actor"] == "daedalus-service"
