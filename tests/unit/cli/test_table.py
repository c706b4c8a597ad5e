"""The processes of a stack: their order, their variables and their secrets."""

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from argon2 import PasswordHasher
from rich.console import Console

from agent_gateway.settings import GatewaySettings
from pallas_cli.broker_config.users import Seeds
from pallas_cli.embedded.postgres import database_url
from pallas_cli.embedded.servers import EmbeddedNats, EmbeddedRedis
from pallas_cli.processes.supervisor import ProcessSpec
from pallas_cli.stack import table
from pallas_cli.stack.data import Accounts
from pallas_cli.stack.plan import External, Plan, StackOptions
from pallas_cli.stack.report import show_console, without_credentials
from pallas_cli.stack.table import SERVERS, SERVICES, TOOLS, all_specs, fixed_ports
from pallas_cli.team_folders import TeamSummary

TEAMS = tuple(TeamSummary(path.name, path, ("one",), frozenset()) for path in (Path("/a"), Path("/b")))
PLAN = Plan(
    StackOptions(Path("/data"), workers=2, gateways=2, port_base=40000),
    External(),
    Path("/data"),
    TEAMS,
    demo=True,
    gateway_ports=(40020, 40021),
    nats=EmbeddedNats(Path("/data/nats"), Seeds(Path("/data/secrets/nats")), 40030, 40031),
)
REDIS, POSTGRES = "redis://u:pw@cache:6379", "postgresql://u:pw@db:5432/any?sslmode=require"
ACCOUNTS = Accounts("admin", "daedalus", "key", "sealing")
WITH_AUTH = replace(PLAN, accounts=ACCOUNTS, external=External(redis=REDIS, postgres=POSTGRES))


def spec_of(label: str) -> ProcessSpec:
    """The process of PLAN with this label."""
    return next(spec for spec in all_specs(PLAN) if spec.label == label)


def test_gateways_stop_first_and_the_broker_last() -> None:
    labels = [spec.label for spec in sorted(all_specs(PLAN), key=lambda spec: -spec.stage)]
    assert labels == [
        *("agent-gateway-1", "agent-gateway-2", "agent-worker-1", "agent-worker-2", "registry-1", "pipelines-1"),
        *("data-pool-1", "fleet-1", "health-monitor-1", "coder-1", "demo-tools-1", "demo-agents-1", "nats-server-1"),
    ]
    assert SERVERS < TOOLS < SERVICES


def test_the_auth_side_starts_last_and_stops_after_the_services_of_agents() -> None:
    specs = {spec.name: spec for spec in all_specs(WITH_AUTH)}
    auth = [specs.pop(name) for name in ("team-lifecycle", "auth-resolver", "library-search", "workspaces")]
    agents = specs.keys() - {"nats-server", "pipelines", "data-pool", "demo-agents", "fleet", "coder"}
    assert all(spec.needs == {*agents, "nats-server"} for spec in auth)
    assert all(spec.stage == TOOLS for spec in auth)
    assert specs["fleet"].needs == specs["coder"].needs == {*agents, "nats-server"}


def test_agents_answer_before_anything_else_is_started() -> None:
    specs = {spec.name: spec for spec in all_specs(replace(WITH_AUTH, redis=EmbeddedRedis(Path("r"), "w", 40032)))}
    first = {"agent-gateway", "agent-worker", "demo-tools"}
    assert {need for name in (*first, "registry") for need in specs[name].needs} == {"nats-server"}
    assert specs["redis-server"].needs == first
    assert specs["team-lifecycle"].needs > {"redis-server", "nats-server"}
    assert specs["health-monitor"].needs == first | {"nats-server"}, "the registry waits for what the monitor publishes"
    assert specs["pipelines"].needs == specs["data-pool"].needs == first | {"nats-server"}
    assert specs["demo-agents"].needs == {"data-pool"}


async def test_the_data_pool_has_the_gateway_s_address_and_whether_bearers_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PALLAS_PUBLIC_URL", raising=False)
    monkeypatch.setenv("PALLAS_GATEWAY_AUTH", "required")
    env = (await spec_of("data-pool-1").prepare()).env
    given = {name: env[name] for name in ("PALLAS_PORT", "PALLAS_GATEWAY_URL", "PALLAS_GATEWAY_AUTH")}
    assert list(given.values()) == ["40039", "http://127.0.0.1:40020", "required"]


async def test_a_password_has_the_same_hash_at_each_start_which_keeps_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "ensure_database", AsyncMock())

    async def console(password: str, key: str = "sealing") -> Mapping[str, str]:
        plan = replace(WITH_AUTH, accounts=Accounts(password, "daedalus", "key", key))
        [spec] = [spec for spec in all_specs(plan) if spec.name == "workspaces"]
        return (await spec.prepare()).env

    name = "PALLAS_ADMIN_PASSWORD_HASH"
    first, again, other, elsewhere = [
        (await console(*accounts))[name] for accounts in (("a",), ("a",), ("b",), ("a", "another key"))
    ]
    assert first == again
    assert len({first, other, elsewhere}) == 3
    assert PasswordHasher().verify(first, "a")
    assert (await console("a"))["PALLAS_OWN_REGISTRIES"] == "http://127.0.0.1:40000"


def test_a_service_has_a_database_of_its_own_on_the_given_server() -> None:
    assert database_url(POSTGRES, "mine") == "postgresql://u:pw@db:5432/mine?sslmode=require"


def test_a_role_of_the_service_replaces_the_user_of_the_given_url() -> None:
    assert database_url("postgresql://u:pw@db:5432/any", "mine", "word") == "postgresql://mine:word@db:5432/mine"


def test_no_secret_of_the_auth_side_is_printed_with_a_plan() -> None:
    shown = repr(WITH_AUTH)
    assert not [secret for secret in ("pw", "'admin'", "daedalus", "'key'", "sealing") if secret in shown]


async def test_a_worker_gets_its_teams_and_the_urls_of_the_demo_servers() -> None:
    launch = await spec_of("agent-worker-2").prepare()
    assert launch.command[1:] == ("-P", "-m", "agent_worker")
    assert launch.env["PALLAS_TEAMS"] == os.pathsep.join(("/a", "/b"))
    assert launch.env["PALLAS_NATS_URL"] == "nats://127.0.0.1:40030"
    assert launch.env["PALLAS_DEMO_TOOLS_URL"] == "http://127.0.0.1:40034/mcp"
    assert launch.env["PALLAS_DEMO_LIBRARY_URL"] == "http://127.0.0.1:40037/mcp"
    assert launch.env["PALLAS_DRAIN_SECONDS"] == "5"


async def test_no_process_inherits_secrets_and_only_readers_of_team_folders_inherit_the_rest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secrets = {"FERNET_KEYS", "LOG_KEY", "REDIS_URL", "POSTGRES_URL", "ADMIN_PASSWORD", "SERVICE_PASSWORD", "TOKEN"}
    secrets |= {"CONSTELLATION_API_KEYS", "FERNET_KEY", "SECRET_KEY", "TEAMS_PASSWORD", "AGENT_TOKEN", "CODER_TOKEN"}
    secrets |= {"KEEP_KEY"}
    variables = {f"PALLAS_{name}{twin}" for name in secrets for twin in ("", "_FILE")}
    for name in (*variables, "PALLAS_TRACE_CONTENT", "MY_TEAM_KEY"):
        monkeypatch.setenv(name, "inherited")
    servers = {
        "nats": EmbeddedNats(tmp_path / "nats", Seeds(tmp_path / "seeds"), 40030, 40031),
        "redis": EmbeddedRedis(tmp_path / "redis", "word", 40032),
    }
    specs = all_specs(replace(PLAN, data=tmp_path, **servers))
    environments = {spec.name: (await spec.prepare()).env for spec in specs}
    given = {(name, variable) for name, env in environments.items() for variable in variables & env.keys()}
    token = {("fleet", "PALLAS_CODER_TOKEN"), ("coder", "PALLAS_CODER_TOKEN")}
    with_log_key = ("agent-gateway", "pipelines")
    api_keys = {("pipelines", f"PALLAS_CONSTELLATION_API_KEYS{twin}") for twin in ("", "_FILE")}
    assert given == {(name, "PALLAS_LOG_KEY") for name in with_log_key} | api_keys | token
    [key] = {environments[name]["PALLAS_LOG_KEY"] for name in with_log_key}
    [kept] = {environments[name]["PALLAS_CODER_TOKEN"] for name in ("fleet", "coder")}
    assert "inherited" not in (key, kept)
    assert {name for name, env in environments.items() if "MY_TEAM_KEY" in env} == {"agent-worker", "health-monitor"}
    assert environments.keys() - {name for name, env in environments.items() if "PALLAS_TRACE_CONTENT" in env} == {
        "nats-server",
        "redis-server",
        "coder",
    }


async def test_a_coder_elsewhere_gets_the_token_of_the_environment_and_there_is_no_stand_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PALLAS_CODER_TOKEN_FILE", "/a/token")
    plan = replace(PLAN, data=tmp_path, external=External(coder="https://coder.example"))
    plan = replace(plan, nats=EmbeddedNats(tmp_path / "nats", Seeds(tmp_path / "seeds"), 40030, 40031))
    specs = {spec.name: spec for spec in all_specs(plan)}
    assert "coder" not in specs
    env = (await specs["fleet"].prepare()).env
    assert (env["PALLAS_CODER_URL"], env["PALLAS_CODER_TOKEN_FILE"]) == ("https://coder.example", "/a/token")
    assert "PALLAS_CODER_TOKEN" not in env
    assert [name for name, it in specs.items() if "PALLAS_CODER_TOKEN_FILE" in (await it.prepare()).env] == ["fleet"]


async def test_each_gateway_has_its_own_port_and_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PALLAS_PUBLIC_URL", raising=False)
    env = (await spec_of("agent-gateway-2").prepare()).env
    assert (env["PALLAS_PORT"], env["PALLAS_PUBLIC_URL"]) == ("40021", "http://127.0.0.1:40021")


async def test_no_agent_gets_a_port_of_the_stack_or_of_the_user_s_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALLAS_RESERVED_PORTS", "5432,6379")
    plan = WITH_AUTH
    [gateway, _] = [spec for spec in all_specs(plan) if spec.name == "agent-gateway"]
    name = "PALLAS_RESERVED_PORTS"
    reserved = GatewaySettings.from_env({name: (await gateway.prepare()).env[name]}).reserved_ports
    assert set(reserved) == {*fixed_ports(plan).values(), 5432, 6379}
    assert {40036, 40000, 40030} < set(reserved)
    assert (await spec_of("registry-1").prepare()).env["PALLAS_PUBLIC_URL"] == "http://127.0.0.1:40020"


async def test_a_service_without_a_public_port_gets_a_new_port_at_every_start() -> None:
    ports = {(await spec_of("health-monitor-1").prepare()).env["PALLAS_PORT"] for _ in range(3)}
    assert len(ports) > 1


def test_addresses_are_shown_without_credentials() -> None:
    assert without_credentials("nats://user:pw@a:1, nats://b:2") == "nats://a:1,nats://b:2"


def test_the_link_to_the_console_comes_with_the_command_for_another_one() -> None:
    printed = io.StringIO()
    data = Path("/a/folder/that/is/long/enough/to/be/broken/into/two/lines/if/nobody/takes/care")
    show_console(Console(file=printed, width=80), "http://127.0.0.1:1", "http://127.0.0.1:1/login#once=x", data)
    lines = printed.getvalue().splitlines()
    assert "  http://127.0.0.1:1/login#once=x" in lines
    assert lines[-1].endswith(f"pallas console --data {data}")
