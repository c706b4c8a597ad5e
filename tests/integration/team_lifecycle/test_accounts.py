"""Accounts over HTTP Basic, which are checked before anything else of a request."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from tests.integration.team_lifecycle.lab import (
    ADMIN,
    ADMIN_PASSWORD,
    SERVICE_PASSWORD,
    TEAMS,
    Lifecycle,
    a_lifecycle,
    environment,
)
from tests.integration.team_lifecycle.replica import replicas
from tests.requirements import requirement
from tests.waiting import eventually, soon, within

from pallas_credentials.accounts import Admission

ID = "60126f93-85e1-41f2-9a27-1e26eb3ad2a5"
ROUTES = [
    ("POST", TEAMS),
    ("GET", f"{TEAMS}{ID}/"),
    ("DELETE", f"{TEAMS}{ID}/"),
    ("PUT", f"{TEAMS}{ID}/workspaces/"),
    ("POST", f"{TEAMS}{ID}/rotate/"),
    ("GET", "/mcp_server/api/nothing"),
    ("GET", f"{ADMIN}/users"),
    ("POST", f"{ADMIN}/keys"),
    ("GET", f"{ADMIN}/nothing"),
]
WRONG: list[dict[str, str]] = [
    {},
    {"Authorization": ""},
    {"Authorization": "Basic"},
    {"Authorization": "Basic !!!"},
    {"Authorization": "Basic " + "A" * 5000},
    {"Authorization": "Basic Zm9v"},
    {"Authorization": "Basic /////w=="},
    {"Authorization": "Bearer pallas_x"},
]


@requirement("A-7.0.1", "A-14.1.7")
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_route_checks_the_account_before_anything_else(
    lifecycle: Lifecycle, method: str, path: str
) -> None:
    for headers in WRONG:
        answer = await lifecycle.stranger.request(method, path, headers=headers, content=b"{not json")
        assert answer.status_code == 401, headers
        assert answer.headers["www-authenticate"].startswith("Basic realm=")
        assert answer.json()["code"] == "unauthorized"
    right = SERVICE_PASSWORD if path.startswith("/mcp_server") else ADMIN_PASSWORD
    name = "daedalus-service" if path.startswith("/mcp_server") else "admin"
    for account in [(name, "wrong"), (name, ""), ("", right), ("somebody", right), (name.upper(), right)]:
        assert (await lifecycle.stranger.request(method, path, auth=account)).status_code == 401, account
    assert (await lifecycle.stranger.request(method, path, auth=(name, right))).status_code != 401


async def test_an_account_is_refused_on_the_routes_of_the_other(lifecycle: Lifecycle) -> None:
    assert (await lifecycle.admin.get(f"{TEAMS}{ID}/")).status_code == 401
    assert (await lifecycle.daedalus.get(f"{ADMIN}/users")).status_code == 401
    assert (await lifecycle.stranger.get("/openapi.json")).status_code == 200


async def test_an_account_without_a_password_hash_is_disabled(addresses: dict[str, str]) -> None:
    async with a_lifecycle(**addresses, admin_password_hash="") as lifecycle:
        assert (await lifecycle.admin.get(f"{ADMIN}/users")).status_code == 401
        assert (await lifecycle.daedalus.get(f"{TEAMS}{ID}/")).status_code == 404


@pytest.fixture
async def slow_hashing(addresses: dict[str, str]) -> AsyncGenerator[Lifecycle]:
    """A service whose password takes as long to check as Argon2 recommends."""
    async with a_lifecycle(**addresses, service_password_hash=PasswordHasher().hash(SERVICE_PASSWORD)) as lifecycle:
        yield lifecycle


async def test_a_right_password_is_hashed_once_and_an_unknown_name_costs_as_much_as_a_wrong_one(
    own_lifecycle: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes: list[str] = []
    verify = Admission.verify

    async def recorded(admission: Admission, password_hash: str, *given: Any, **more: Any) -> bool:
        hashes.append(password_hash)
        return await verify(admission, password_hash, *given, **more)

    monkeypatch.setattr(Admission, "verify", recorded)

    async def checked(name: str, password: str) -> list[str]:
        hashes.clear()
        for _ in range(3):
            await own_lifecycle.stranger.get(f"{TEAMS}{ID}/", auth=(name, password))
        return [*hashes]

    wrong = await checked("daedalus-service", "wrong")
    assert len(wrong) == 3
    assert await checked("nobody", SERVICE_PASSWORD) == wrong, "an unknown name is hashed too"
    assert await checked("daedalus-service", SERVICE_PASSWORD) == wrong[:1]


async def test_password_guesses_do_not_delay_an_account_that_is_already_verified(
    slow_hashing: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pallas_credentials.accounts.WAITING_OF_ADDRESS", 8)
    assert (await slow_hashing.daedalus.get(f"{TEAMS}{ID}/")).status_code == 404
    guesses = [
        asyncio.create_task(slow_hashing.stranger.get(TEAMS, auth=("daedalus-service", f"guess {number}")))
        for number in range(30)
    ]
    answered = 0
    while not all(guess.done() for guess in guesses):
        assert (await slow_hashing.daedalus.get(f"{TEAMS}{ID}/")).status_code == 404
        answered += 1
    assert answered > 10
    statuses = [guess.result().status_code for guess in guesses]
    assert set(statuses) == {401, 503}
    assert all("retry-after" in guess.result().headers for guess in guesses if guess.result().status_code == 503)


@pytest.mark.parametrize("addresses_of_strangers", [["127.0.0.1"], [f"127.0.1.{number}" for number in range(1, 25)]])
async def test_password_guesses_lock_no_account_out(
    addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch, addresses_of_strangers: list[str]
) -> None:
    monkeypatch.setattr("pallas_credentials.accounts.REMEMBERED_SECONDS", 0.0)
    hasher = PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1)
    hashes = {
        "service_password_hash": hasher.hash(SERVICE_PASSWORD),
        "admin_password_hash": hasher.hash(ADMIN_PASSWORD),
    }
    async with a_lifecycle(**addresses, **hashes) as lifecycle, AsyncExitStack() as stack:

        async def guess(number: int) -> None:
            address = addresses_of_strangers[number % len(addresses_of_strangers)]
            transport = httpx.AsyncHTTPTransport(verify=False, local_address=address)
            path, name = ((TEAMS, "daedalus-service"), (f"{ADMIN}/users", "admin"))[number % 2]
            async with httpx.AsyncClient(base_url=lifecycle.base, transport=transport, timeout=60) as client:
                while True:
                    statuses.append((await client.get(path, auth=(name, f"guess {len(statuses)}"))).status_code)

        statuses: list[int] = []
        group = await stack.enter_async_context(asyncio.TaskGroup())
        guesses = [group.create_task(guess(number)) for number in range(64)]
        await eventually(lambda: len(statuses) > 64)
        for _ in range(6):
            async with within(10.0):
                assert (await soon(lifecycle.admin.get(f"{ADMIN}/users"))).status_code == 200
                assert (await soon(lifecycle.daedalus.get(f"{TEAMS}{ID}/"))).status_code == 404
        for task in guesses:
            task.cancel()
        assert set(statuses) == {401}


def peak_mebibytes(pid: int) -> float:
    """The peak resident memory of a process, in MiB."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("utf-8"))
    assert peak is not None
    return int(peak[1]) / 1024


async def test_eight_password_checks_at_once_use_at_most_seven_eighths_of_the_memory_limit(
    addresses: dict[str, str], tmp_path: Path
) -> None:
    # A check takes the memory of the default parameters and a third of their time. Three at once would be too much.
    hasher = PasswordHasher(time_cost=1)
    environ = {**environment(**addresses), "PALLAS_SERVICE_PASSWORD_HASH": hasher.hash(SERVICE_PASSWORD)}
    async with replicas(1, environ, tmp_path) as [replica], httpx.AsyncClient(trust_env=False, timeout=60) as client:
        assert replica.process is not None
        guesses = [client.get(f"{replica.base}{TEAMS}", auth=("daedalus-service", f"guess {n}")) for n in range(8)]
        assert {answer.status_code for answer in await asyncio.gather(*guesses)} == {401}
        peak = peak_mebibytes(replica.process.pid)
        assert hasher.memory_cost / 1024 < peak < 256 * 7 / 8
