"""Bad input is refused with the name of the wrong field, and changes nothing."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.integration.team_lifecycle.lab import ADMIN, TEAMS, Lifecycle
from tests.waiting import soon

ID = str(uuid.uuid4())
LONG = "x" * 201

TEAM_BODIES: list[tuple[Any, str]] = [
    ({}, "id"),
    ({"id": ID}, "name"),
    ({"name": "x"}, "id"),
    ({"id": "kottos", "name": "x"}, "id"),
    ({"id": "x" * 65, "name": "x"}, "id"),
    ({"id": 7, "name": "x"}, "id"),
    ({"id": None, "name": "x"}, "id"),
    ({"id": ID, "name": ""}, "name"),
    ({"id": ID, "name": "   "}, "name"),
    ({"id": ID, "name": LONG}, "name"),
    ({"id": ID, "name": None}, "name"),
    ({"id": ID, "name": ["x"]}, "name"),
    ({"id": ID, "name": 7}, "name"),
    ({"id": ID, "name": "a\x00b"}, "name"),
    ({"id": ID, "name": "a\nb"}, "name"),
    ({"id": ID, "name": "\ud800"}, "name"),
    ([], "body"),
    ("x", "body"),
    (None, "body"),
]
WORKSPACE_BODIES: list[tuple[Any, str]] = [
    ({}, "workspace_ids"),
    ({"workspace_ids": None}, "workspace_ids"),
    ({"workspace_ids": "ws"}, "workspace_ids"),
    ({"workspace_ids": {"ws": 1}}, "workspace_ids"),
    ({"workspace_ids": ["ws", ""]}, "workspace_ids.1"),
    ({"workspace_ids": ["x" * 65]}, "workspace_ids.0"),
    ({"workspace_ids": [7]}, "workspace_ids.0"),
    ({"workspace_ids": ["a\x00"]}, "workspace_ids.0"),
    ({"workspace_ids": ["ws"] * 1001}, "workspace_ids"),
]
ADMIN_BODIES: list[tuple[str, str, Any, str]] = [
    ("POST", "/users", {"name": "a b"}, "name"),
    ("POST", "/users", {"name": "x" * 65}, "name"),
    ("POST", "/users", {"name": "ann", "admin": True}, "admin"),
    ("PATCH", "/users/ann", {"active": "yes"}, "active"),
    ("POST", "/libraries", {"uid": "a/b", "name": "x"}, "uid"),
    ("POST", "/libraries", {"uid": "..", "name": "x"}, "uid"),
    ("POST", "/libraries", {"uid": "x" * 65, "name": "x"}, "uid"),
    ("POST", "/libraries", {"uid": "lib", "name": LONG}, "name"),
    ("POST", "/libraries", {"uid": "lib", "name": "x", "workspace_id": "y" * 65}, "workspace_id"),
    ("PUT", "/libraries/lib/workspace", {}, "workspace_id"),
    ("PUT", "/memberships/lib/ann/admin", None, "role"),
    ("POST", "/tokens", {"user": "ann", "name": "x", "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
    ("POST", "/tokens", {"user": "ann", "name": "x", "expires_at": "2030-01-01T00:00:00"}, "expires_at"),
    ("POST", "/tokens", {"user": "ann", "name": "x", "expires_at": "9999-12-31T23:59:59-23:59"}, "expires_at"),
    ("POST", "/tokens", {"user": "ann", "name": "x", "allowed_libraries": ["a b"]}, "allowed_libraries.0"),
    ("POST", "/keys", {"purpose": "both"}, "purpose"),
    ("POST", "/keys", {"purpose": "team", "algorithm": "none"}, "algorithm"),
    ("POST", "/keys", {"purpose": "team", "\ud800": 1}, "body"),
    ("GET", "/users?limit=0", None, "limit"),
    ("GET", "/users?limit=x", None, "limit"),
    ("GET", "/users?after=%00", None, "after"),
    ("GET", "/tokens?after=7", None, "after"),
    ("GET", "/changes?after=-1", None, "after"),
    ("GET", "/changes?after=99999999999999999999", None, "after"),
]


async def assert_refused(lifecycle: Lifecycle, method: str, path: str, body: Any, field: str) -> None:
    client = lifecycle.admin if path.startswith(ADMIN) else lifecycle.daedalus
    headers = {"Content-Type": "application/json"}
    before = (await lifecycle.admin.get(f"{ADMIN}/changes?limit=1000")).json()
    answer = await client.request(method, path, content=json.dumps(body), headers=headers)
    assert answer.status_code == 422, answer.text
    assert answer.json()["field"].startswith(field), answer.text
    assert answer.json()["error"].startswith(field)
    assert LONG not in answer.text
    assert (await lifecycle.admin.get(f"{ADMIN}/changes?limit=1000")).json() == before


async def test_a_bad_team_is_refused_with_the_wrong_field(lifecycle: Lifecycle) -> None:
    for body, field in TEAM_BODIES:
        await assert_refused(lifecycle, "POST", TEAMS, body, field)
    assert (await lifecycle.daedalus.get(f"{TEAMS}{ID}/")).status_code == 404


async def test_bad_workspace_ids_are_refused_with_the_wrong_field(lifecycle: Lifecycle) -> None:
    team_id, _ = await lifecycle.team()
    await lifecycle.attach(team_id, "before")
    for body, field in WORKSPACE_BODIES:
        await assert_refused(lifecycle, "PUT", f"{TEAMS}{team_id}/workspaces/", body, field)
    assert (await lifecycle.daedalus.get(f"{TEAMS}{team_id}/")).json()["workspace_ids"] == ["before"]


async def test_bad_admin_requests_are_refused_with_the_wrong_field(lifecycle: Lifecycle) -> None:
    await lifecycle.user("ann")
    await lifecycle.library("lib", owner="ann")
    for method, path, body, field in ADMIN_BODIES:
        await assert_refused(lifecycle, method, f"{ADMIN}{path}", body, field)


async def test_the_longest_names_and_ids_are_accepted(lifecycle: Lifecycle) -> None:
    made = await lifecycle.daedalus.post(TEAMS, json={"id": ID, "name": "ü" * 200})
    assert (made.status_code, made.json()["name"]) == (201, "ü" * 200)
    await lifecycle.attach(ID, *(f"{number:064d}" for number in range(1000)))
    await lifecycle.library("x" * 64, "w" * 64)


async def test_a_body_that_is_not_json_is_refused(lifecycle: Lifecycle) -> None:
    for content in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"id": ' + b"9" * 5000 + b"}"):
        answer = await lifecycle.daedalus.post(TEAMS, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), content[:20]


async def test_a_large_body_is_refused_before_it_is_read(lifecycle: Lifecycle) -> None:
    declared = await lifecycle.daedalus.post(TEAMS, content=b"x" * 300_000)
    assert (declared.status_code, declared.json()["code"]) == (413, "too_large")

    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(30):
            yield b"x" * 10_000

    assert (await lifecycle.daedalus.post(TEAMS, content=chunks())).status_code == 413


async def test_a_request_whose_body_never_arrives_gets_a_408(
    lifecycle: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pallas_runtime.front.BODY_SECONDS", 0.2)
    authorization = lifecycle.daedalus.build_request("GET", TEAMS)
    lifecycle.daedalus.auth.auth_flow(authorization).__next__() if lifecycle.daedalus.auth else None
    address = urlsplit(lifecycle.base)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"POST {TEAMS} HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n"
    writer.write(f"{head}Authorization: {authorization.headers['authorization']}\r\n\r\n".encode())
    assert b"408" in await soon(reader.readline())
    writer.close()
    await writer.wait_closed()
