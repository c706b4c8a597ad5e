"""Logging in and out, and what is refused without."""

import asyncio
import re
from collections.abc import AsyncGenerator
from datetime import timedelta

import httpx
import pytest
from argon2 import PasswordHasher
from tests.integration.workspaces.lab import API, PASSWORD, Lab, a_workspaces, client_of, log_in, session_cookie
from tests.postgres import PostgresServer
from tests.waiting import soon

from workspaces.access import sessions

PICTURES = (f"{API}/images/", f"{API}/icons/")


@pytest.fixture
async def client(lab: Lab) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser that is not logged in."""
    async with client_of(lab.base) as client:
        yield client


def code_of(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    return answer.status_code, answer.json()["code"]


async def test_a_login_sets_a_cookie_that_pages_cannot_read(client: httpx.AsyncClient) -> None:
    answer = await log_in(client)
    assert answer.json()["account"] == "admin"
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/", "max-age=2592000"))
    session = await client.get(f"{API}/session")
    assert session.json() == answer.json()
    assert session.headers["cache-control"] == "no-store"


async def test_behind_tls_the_cookie_is_sent_over_tls_only(database: str) -> None:
    async with a_workspaces(postgres_url=database, public_url="https://pallas.example") as lab:
        answer = await lab.stranger.post(f"{API}/login", json={"password": PASSWORD})
        assert "secure" in answer.headers["set-cookie"].lower().split("; ")


async def test_each_login_is_a_new_session_and_ends_the_one_before(client: httpx.AsyncClient) -> None:
    await log_in(client)
    name, old = session_cookie(client)
    await log_in(client)
    assert session_cookie(client)[1] != old
    client.cookies.clear()
    client.cookies.set(name, old)
    assert code_of(await client.get(f"{API}/session")) == (401, "unauthorized")


async def test_a_cookie_that_was_planted_does_not_become_a_session(client: httpx.AsyncClient) -> None:
    client.cookies.set(f"pallas_session_{client.base_url.port}", "planted")
    answer = await log_in(client)
    assert "planted" not in answer.headers["set-cookie"]


async def test_after_a_logout_the_cookie_is_worth_nothing(client: httpx.AsyncClient) -> None:
    await log_in(client)
    name, token = session_cookie(client)
    assert (await client.post(f"{API}/logout")).status_code == 204
    assert name not in client.cookies
    client.cookies.set(name, token)
    assert code_of(await client.get(f"{API}/session")) == (401, "unauthorized")


async def test_a_wrong_password_is_refused(client: httpx.AsyncClient) -> None:
    assert code_of(await log_in(client, password="wrong")) == (401, "wrong_password")
    assert "www-authenticate" not in (await client.get(f"{API}/session")).headers


async def test_wrong_passwords_lock_out_neither_the_right_one_nor_who_has_a_session(own_lab: Lab) -> None:
    for number in range(6):
        assert code_of(await log_in(own_lab.stranger, password=f"wrong {number}")) == (401, "wrong_password")
    assert (await log_in(own_lab.stranger)).status_code == 200


async def test_who_guesses_fast_is_refused_and_a_session_of_the_same_address_is_not(own_lab: Lab) -> None:
    guesses = [asyncio.create_task(log_in(own_lab.stranger, password=f"wrong {number}")) for number in range(20)]
    done, _ = await soon(asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED))
    while not (refused := [guess.result() for guess in done if guess.result().status_code == 429]):
        done, _ = await soon(asyncio.wait(set(guesses) - done, return_when=asyncio.FIRST_COMPLETED))
    assert code_of(refused[0]) == (429, "too_many_logins")
    assert 1 <= int(refused[0].headers["retry-after"]) <= 5
    assert (await log_in(own_lab.browser)).status_code == 200
    assert not all(guess.done() for guess in guesses), "they still wait"
    for guess in guesses:
        guess.cancel()


async def test_a_link_logs_in_once(lab: Lab, client: httpx.AsyncClient) -> None:
    made = await lab.command_line.post(f"{API}/login/links")
    assert made.status_code == 201
    base, token = made.json()["url"].split("/login#once=")
    assert base == lab.base
    answers = await asyncio.gather(*(log_in(client, once=token) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 401, 401, 401]


async def test_a_link_expires(lab: Lab, client: httpx.AsyncClient, postgres: PostgresServer) -> None:
    made = (await lab.browser.post(f"{API}/login/links")).json()
    late = "update login_links set expires_at = now()"
    await postgres.say(late, lab.settings["postgres_url"])
    assert code_of(await log_in(client, once=made["url"].partition("once=")[2])) == (401, "bad_link")


async def test_a_session_that_is_used_lives_on(own_lab: Lab, postgres: PostgresServer) -> None:
    url = own_lab.settings["postgres_url"]
    days = "select extract(day from max(expires_at) - now())::int from sessions"
    await postgres.say("update sessions set expires_at = now() + interval '3 days'", url)
    answer = await own_lab.browser.get(f"{API}/session")
    assert "max-age=2592000" in answer.headers["set-cookie"].lower()
    assert await postgres.say(days, url) == [(29,)]
    await postgres.say("update sessions set expires_at = now()", url)
    assert (await own_lab.browser.get(f"{API}/session")).status_code == 401


async def test_only_digests_of_tokens_are_stored(own_lab: Lab, postgres: PostgresServer) -> None:
    link = (await own_lab.browser.post(f"{API}/login/links")).json()["url"]
    stored = str(
        await postgres.say("select s::text, l::text from sessions s, login_links l", own_lab.settings["postgres_url"])
    )
    assert session_cookie(own_lab.browser)[1] not in stored
    assert link.partition("once=")[2] not in stored


async def test_consoles_at_two_ports_of_a_host_keep_their_sessions_apart(lab: Lab, client: httpx.AsyncClient) -> None:
    names = [
        (await client.post(f"{API}/login", json={"password": PASSWORD}, headers={"host": host})).headers["set-cookie"]
        for host in ("pallas.test:8001", "pallas.test:8002", "pallas.test", "[::1]:8003", "pallas.test:x")
    ]
    names = [name.partition("=")[0].removeprefix("pallas_session") for name in names]
    assert names == ["_8001", "_8002", "", "_8003", ""]


async def test_whoever_has_only_the_cookie_gets_nothing_but_pictures(lab: Lab) -> None:
    async with client_of(lab.base) as thief:
        thief.cookies.set(*session_cookie(lab.browser))
        asked = [path for method, path in await routes_of(lab) if method == "get"]
        assert f"{API}/session" in asked
        refused = {path: code_of(await thief.get(path)) for path in asked if not path.startswith(PICTURES)}
        assert set(refused.values()) == {(401, "unauthorized")}, refused
        assert [code_of(await thief.get(path))[0] for path in asked if path.startswith(PICTURES)] == [422, 422]
        assert (await thief.get(f"{API}/events", headers={"x-csrf-token": "wrong"})).status_code == 401


async def test_a_page_that_is_loaded_after_a_login_is_told_the_token_until_it_is_used(lab: Lab) -> None:
    async with client_of(lab.base) as login, client_of(lab.base) as page:
        begun = await login.post(f"{API}/login", json={"password": PASSWORD})
        page.cookies.set(*session_cookie(login))
        for _ in range(2):  # the first answer may be lost by a reload
            assert (await page.get(f"{API}/session")).json() == begun.json()
        assert (await page.get(f"{API}/workspaces")).status_code == 401
        used = await page.get(f"{API}/workspaces", headers={"x-csrf-token": begun.json()["csrf"]})
        assert used.status_code == 200
        assert code_of(await page.get(f"{API}/session")) == (401, "unauthorized")


async def test_a_token_that_nobody_has_used_is_not_told_later(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "TOLD_WITHIN", timedelta(0))
    async with client_of(lab.base) as page:
        await page.post(f"{API}/login", json={"password": PASSWORD})
        assert code_of(await page.get(f"{API}/session")) == (401, "unauthorized")


async def test_another_password_ends_all_sessions_and_links(database: str) -> None:
    async with a_workspaces(postgres_url=database) as before:
        link = (await before.browser.post(f"{API}/login/links")).json()["url"].partition("once=")[2]
        _, token = session_cookie(before.browser)
        csrf = {"x-csrf-token": before.browser.headers["x-csrf-token"]}
        for changed in (False, True):
            another = (
                {"admin_password_hash": PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("new")}
                if changed
                else {}
            )
            async with a_workspaces(postgres_url=database, **another) as after:
                after.stranger.cookies.set(f"pallas_session_{after.base.rpartition(':')[2]}", token)
                answer = await after.stranger.get(f"{API}/session", headers=csrf)
                assert answer.status_code == (401 if changed else 200)
                listed = (await after.command_line.get(f"{API}/sessions")).json() if not changed else None
                assert listed is None or len(listed["sessions"]) == 2
                assert not changed or code_of(await log_in(after.stranger, once=link)) == (401, "bad_link")


async def test_sessions_are_listed_and_ended_one_by_one_or_all_others(own_lab: Lab) -> None:
    async with client_of(own_lab.base) as first, client_of(own_lab.base) as second:
        for client, name in ((first, "Firefox"), (second, "x" * 400)):
            client.headers["user-agent"] = name
            await log_in(client)
            await client.get(f"{API}/session")
        listed = (await first.get(f"{API}/sessions")).json()["sessions"]
        assert [(one["browser"], one["current"]) for one in listed[:2]] == [("x" * 300, False), ("Firefox", True)]
        assert all(one["address"] == "127.0.0.1" and one["used_at"] >= one["begun_at"] for one in listed[:2])
        assert len(listed) == 3
        assert (await first.delete(f"{API}/sessions/{listed[0]['id']}")).status_code == 204
        assert code_of(await first.delete(f"{API}/sessions/{listed[0]['id']}")) == (404, "no_session")
        assert (await second.get(f"{API}/session")).status_code == 401
        assert (await first.delete(f"{API}/sessions")).status_code == 204
        assert (await own_lab.browser.get(f"{API}/session")).status_code == 401
        assert [one["current"] for one in (await first.get(f"{API}/sessions")).json()["sessions"]] == [True]
        assert (await own_lab.command_line.delete(f"{API}/sessions")).status_code == 204
        assert (await first.get(f"{API}/session")).status_code == 401


async def test_the_command_line_needs_no_csrf_token(lab: Lab) -> None:
    assert (await lab.command_line.get(f"{API}/session")).json()["account"] == "admin"
    assert (await lab.command_line.post(f"{API}/login/links")).status_code == 201


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x-csrf-token": ""}, "bad_csrf"),
        ({"x-csrf-token": "wrong"}, "bad_csrf"),
        ({"sec-fetch-site": "cross-site"}, "cross_site"),
        ({"sec-fetch-site": "same-site"}, "cross_site"),
        ({"origin": "http://evil.example"}, "cross_site"),
        ({"origin": "null"}, "cross_site"),
    ],
)
async def test_a_forged_request_is_refused(lab: Lab, headers: dict[str, str], code: str) -> None:
    refused = await lab.browser.post(f"{API}/login/links", headers=headers)
    assert code_of(refused) == (403, code)


async def test_a_login_from_a_page_of_another_site_is_refused(client: httpx.AsyncClient) -> None:
    client.headers["sec-fetch-site"] = "cross-site"
    assert code_of(await log_in(client)) == (403, "cross_site")


async def test_requests_of_the_console_itself_are_accepted(lab: Lab) -> None:
    for headers in ({"sec-fetch-site": "same-origin"}, {"origin": lab.base}):
        assert (await lab.browser.post(f"{API}/login/links", headers=headers)).status_code == 201


async def routes_of(lab: Lab) -> list[tuple[str, str]]:
    """Method and path of every route of the API."""
    paths = (await lab.browser.get(f"{API}/openapi.json")).json()["paths"]
    return [(method, re.sub(r"{\w+}", "1", path)) for path, methods in paths.items() for method in methods]


async def test_no_route_of_the_api_changes_anything_without_the_csrf_token(lab: Lab) -> None:
    unsafe = [(method, path) for method, path in await routes_of(lab) if method != "get" and path != f"{API}/login"]
    assert ("delete", f"{API}/workspaces/1") in unsafe
    for method, path in unsafe:
        refused = await lab.browser.request(method, path, headers={"x-csrf-token": "x"}, content=b"{not json")
        assert code_of(refused) == (403, "bad_csrf"), (method, path)


async def test_no_log_line_has_a_secret(lab: Lab, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    link = (await lab.command_line.post(f"{API}/login/links")).json()["url"].partition("once=")[2]
    begun = await log_in(client, once=link)
    secrets = [link, begun.json()["csrf"], session_cookie(client)[1], PASSWORD, "a wrong one"]
    await log_in(client, password="a wrong one")
    await log_in(client, once=link)
    await client.post(f"{API}/login/links", headers={"x-csrf-token": "x"})
    await client.post(f"{API}/logout")
    lines = [str(vars(record)) for record in caplog.records if record.name.startswith(("workspaces", "pallas"))]
    said = " ".join(lines)
    for word in ("login succeeded", "login failed", "login link made", "CSRF", "logout"):
        assert word in said
    assert [secret for secret in secrets if secret in said] == []


async def test_no_route_of_the_api_answers_without_a_login(lab: Lab) -> None:
    asked = await routes_of(lab)
    assert ("post", f"{API}/logout") in asked
    for method, path in [*asked, ("get", f"{API}/openapi.json"), ("get", "/api/none"), ("delete", "/api")]:
        if path != f"{API}/login":
            answer = await lab.stranger.request(method, path, content=b"{not json")
            assert code_of(answer) == (401, "unauthorized"), (method, path)


@pytest.mark.parametrize(
    "body", [{}, {"password": "x", "once": "y"}, {"password": ""}, {"password": 3}, [], "x" * 5000]
)
async def test_a_login_that_is_none_is_refused_with_the_reason(client: httpx.AsyncClient, body: object) -> None:
    answer = await client.post(f"{API}/login", json=body)
    assert answer.status_code == (413 if len(str(body)) > 4096 else 422)
    assert answer.json()["error"]
