"""Logging in and out, and what is refused without."""

import asyncio
import re
from collections.abc import AsyncGenerator

import httpx
import pytest
from tests.integration.workspaces.lab import API, PASSWORD, Lab, a_workspaces, client_of, log_in
from tests.postgres import PostgresServer
from tests.waiting import soon

COOKIE = "pallas_session"


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
    old = client.cookies[COOKIE]
    await log_in(client)
    assert client.cookies[COOKIE] != old
    client.cookies.clear()
    client.cookies.set(COOKIE, old)
    assert code_of(await client.get(f"{API}/session")) == (401, "unauthorized")


async def test_a_cookie_that_was_planted_does_not_become_a_session(client: httpx.AsyncClient) -> None:
    client.cookies.set(COOKIE, "planted")
    answer = await log_in(client)
    assert "planted" not in answer.headers["set-cookie"]


async def test_after_a_logout_the_cookie_is_worth_nothing(client: httpx.AsyncClient) -> None:
    await log_in(client)
    token = client.cookies[COOKIE]
    assert (await client.post(f"{API}/logout")).status_code == 204
    assert COOKIE not in client.cookies
    client.cookies.set(COOKIE, token)
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
    assert own_lab.browser.cookies[COOKIE] not in stored
    assert link.partition("once=")[2] not in stored


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
    secrets = [link, begun.json()["csrf"], client.cookies[COOKIE], PASSWORD, "a wrong one"]
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
