"""The workflows of operators (contract, section 9) as commands. A resolver shows their effect."""

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
import typer
from tests.conftest import Connecting
from tests.embedded import NatsServer, RedisServer
from tests.integration.pallas_command import Pallas
from tests.integration.team_lifecycle.lab import ADMIN_PASSWORD, FERNET_KEY, SERVICE_PASSWORD, Lifecycle, a_lifecycle
from tests.postgres import PostgresServer
from tests.requirements import requirement

from auth_resolver.app import build
from auth_resolver.settings import AuthResolverSettings
from pallas_bus.ask import ask
from pallas_cli import main
from pallas_cli.reference import leaves
from pallas_contracts.auth import ResolveBearer
from pallas_contracts.catalog import GATEWAY, RESOLVE
from pallas_contracts.errors import Denied
from pallas_runtime.probes import Probes
from pallas_runtime.process import Process

type Read = Callable[[str], Awaitable[set[str] | str]]

GROUPS = ("keys", "libraries", "teams", "tokens", "users")


@pytest.fixture
async def read(lifecycle: Lifecycle, pallas: Pallas, bus: Connecting) -> AsyncGenerator[Read]:
    """The libraries that a bearer reads, or the message of its refusal. Two libraries exist, each in a workspace."""
    await pallas.done("users", "create", "ann")
    await pallas.done("libraries", "create", "papers", "--workspace", "ws_work", "--owner", "ann")
    await pallas.done("libraries", "create", "diary", "--workspace", "ws_home")
    environ = {f"PALLAS_{name.upper()}": lifecycle.settings[name] for name in ("nats_url", "redis_url")}
    settings = AuthResolverSettings.from_env({**environ, "PALLAS_FERNET_KEYS": FERNET_KEY})
    gateway = await bus(GATEWAY, url=lifecycle.settings["nats_url"])

    async def resolve(bearer: str) -> set[str] | str:
        try:
            return set((await ask(gateway, RESOLVE, ResolveBearer(bearer=bearer.strip()))).libraries)
        except Denied as refused:
            return refused.message

    async with build(settings, Process("auth-resolver", f"resolver-{uuid.uuid4().hex[:8]}", 0, Probes())):
        yield resolve


@requirement("A-9.3.1")
async def test_a_deployment_is_registered_attached_rotated_paused_and_retired(pallas: Pallas, read: Read) -> None:
    jwt = (await pallas.done("teams", "create", "Kottos")).out
    [[team, *_]] = (await pallas.done("teams", "list")).rows
    assert await read(jwt) == set()
    await pallas.done("teams", "workspaces", team, "ws_work")
    assert await read(jwt) == {"papers"}

    leaked, jwt = jwt, (await pallas.done("teams", "rotate", team, "--yes")).out
    assert (await read(leaked), await read(jwt)) == ("Invalid MCP token.", {"papers"})

    await pallas.done("teams", "workspaces", team, "--none")
    assert await read(jwt) == set()
    await pallas.done("teams", "workspaces", team, "ws_work", "ws_home")
    assert await read(jwt) == {"papers", "diary"}
    await pallas.done("teams", "delete", team, "--yes")
    assert await read(jwt) == "Token has been deactivated."


async def test_provisioning_known_deployments_again_changes_nothing(pallas: Pallas, read: Read) -> None:
    instances = {str(uuid.uuid4()): name for name in ("Kottos", "Mentor")}
    jwts = [(await pallas.done("teams", "create", name, "--id", team)).out for team, name in instances.items()]
    assert [(await pallas.done("teams", "create", name, "--id", team)).out for team, name in instances.items()] == [
        "",
        "",
    ]
    assert [await read(jwt) for jwt in jwts] == [set(), set()]


@requirement("A-9.6.1", "A-9.6.2")
async def test_a_token_for_a_client_is_issued_and_revoked(pallas: Pallas, read: Read) -> None:
    [scope] = (await pallas.done("users", "scopes", "ann", "--json")).json
    token = (await pallas.done("tokens", "create", "Claude Desktop", "--user", "ann", "--library", scope)).out
    assert await read(token) == {"papers"}
    await pallas.done("users", "deactivate", "ann")
    assert await read(token) == "User account is disabled."
    await pallas.done("users", "activate", "ann")
    assert await read(token) == {"papers"}
    [[token_id, *_]] = (await pallas.done("tokens", "list", "--user", "ann")).rows
    await pallas.done("tokens", "delete", token_id, "--yes")
    assert await read(token) == "Token has been deactivated."


@requirement("A-13.2.3")
async def test_a_leaked_signing_key_is_replaced_and_every_team_gets_another_jwt(pallas: Pallas, read: Read) -> None:
    leaked = (await pallas.done("teams", "create", "Kottos")).out
    [[team, *_]] = (await pallas.done("teams", "list")).rows
    [key] = [row[0] for row in (await pallas.done("keys", "list")).rows if row[3] == "current"]
    await pallas.done("keys", "create", "team", "--current")
    jwt = (await pallas.done("teams", "rotate", team, "--yes")).out
    await pallas.done("keys", "retire", key, "--yes")
    assert (await read(leaked), await read(jwt)) == ("Invalid MCP token.", set())


@requirement("A-13.5.3")
async def test_a_bearer_of_another_deployment_is_refused(
    pallas: Pallas, read: Read, postgres: PostgresServer, tmp_path: Path
) -> None:
    await pallas.done("teams", "create", "Kottos")
    with NatsServer() as nats, RedisServer(tmp_path / "redis") as redis:
        urls = {"nats_url": nats.url, "redis_url": redis.url, "postgres_url": await postgres.new_database(like="model")}
        async with a_lifecycle(**urls) as other:
            team, jwt = await other.team()
            await other.attach(team, "ws_work")
            await other.user("ann")
            await other.library("papers", owner="ann")
            token = (await other.token("ann", "papers")).json()["token"]
            assert (await read(jwt), await read(token)) == ("Invalid MCP token.", "Invalid MCP token.")
            assert await pallas.refused("teams", "show", team) == [f"pallas: there is no team '{team}'"]


async def test_every_command_succeeds_and_each_secret_is_printed_once(pallas: Pallas) -> None:
    await pallas.done("users", "create", "ann")
    await pallas.done("libraries", "create", "papers", "--owner", "ann")
    token = (await pallas.done("tokens", "create", "Cline", "--user", "ann", "--json")).json
    team = (await pallas.done("teams", "create", "Kottos", "--json")).json
    rotated = (await pallas.done("teams", "rotate", team["id"], "--yes", "--json")).json
    turn = (await pallas.done("keys", "create", "turn", "--json")).json
    work = f"""
        users list --limit 1
        users show ann
        users scopes ann
        users deactivate ann
        users activate ann
        libraries list
        libraries show papers
        libraries members papers
        libraries rename papers Papers
        libraries move papers ws_work
        libraries grant papers ann reader
        libraries revoke papers ann reader --yes
        libraries delete papers --yes
        tokens list
        tokens show {token["id"]}
        tokens libraries {token["id"]} --none
        tokens delete {token["id"]} --yes
        teams list
        teams show {team["id"]}
        teams workspaces {team["id"]} ws_work
        teams create Kottos --id {team["id"]}
        teams delete {team["id"]} --yes
        keys list
        keys show {turn["kid"]}
        keys make-current {(await pallas.done("keys", "create", "team", "--json")).json["kid"]}
        keys retire {turn["kid"]} --yes
        keys reseal
    """
    for line in work.strip().splitlines():
        assert (await pallas.done(*line.split(), "--json")).json is not None

    known = {words for words, _ in leaves(typer.main.get_command(main.commands)) if words[0] in GROUPS}
    assert {result.words[:2] for result in pallas.results} == known - {("libraries", "ingest"), ("libraries", "demo")}
    printed = "".join(result.out + result.err for result in pallas.results)
    secrets = [token["token"], team["jwt"], rotated["jwt"], turn["secret"]]
    assert [printed.count(secret) for secret in secrets] == [1, 1, 1, 1]
    assert [printed.count(word) for word in (ADMIN_PASSWORD, SERVICE_PASSWORD, FERNET_KEY)] == [0, 0, 0]
