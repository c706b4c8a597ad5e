"""No secret of a folder can be read from a repr, a string, a fault or a key."""

import traceback
from pathlib import Path

import pytest
from pydantic import SecretStr
from tests.unit.teams.folders import OFFLINE, faults_of, load, only_fault, write_team

from pallas_teams import HttpServer, ProviderConfig, StdioServer, TeamFaults, load_team

CONFIG = """
    default_model: openai.gpt-5
    openai: {base_url: "https://user:HUSH1@proxy.test/v1"}
    mcp:
      servers:
        web: {url: "https://web.test/mcp?token=${HUSH}"}
        tool: {command: tool}
    """
SECRETS = """
    openai: {api_key: HUSH2}
    mcp:
      servers:
        web: {headers: {Authorization: Bearer HUSH3}}
        tool: {args: [--token, HUSH4], env: {TOKEN: HUSH5}}
    """


def test_a_loaded_team_prints_no_secret(tmp_path: Path) -> None:
    team = load(write_team(tmp_path, "agents: {a: {servers: [web, tool]}}", CONFIG, SECRETS), {"HUSH": "HUSH0"})
    agent = team.agents["a"]
    published = (team.dependencies(agent), team.model_dependency(agent), team.capabilities(agent))
    parts = [team, *team.servers.values(), *team.providers.values(), *team.agents.values(), *published]
    assert "HUSH" not in "".join(f"{part!r} {part!s}" for part in parts)


BROKEN_SECRETS = [
    "openai: HUSH",
    "openai: {api_key: [HUSH]}",
    "openai: {api_key: *HUSH}",
    "openai: {api_key: !HUSH x}",
    'openai: {api_key: "HUSH\\q"}',
    "openai: {api_key: HUSH",
    "openai: {HUSH: x}",
    "openai: {HUSH: !x y}",
    "openai: {HUSH: '${UNSET}'}",
    "openai: {HUSH: {a: 1, a: 2}}",
    "openai: {HUSH: {forward_inbound_auth: true}}",
    "HUSH-key",
    "HUSH-key: 1",
    "openai: {api_key: HUSH, api_key: HUSH}",
    "openai: {base_url: HUSH}",
    "openai: {api_key: 'HUSH '}",
    "mcp: {servers: {s: {url: HUSH}}}",
    "mcp: {servers: {s: {url: 'http://x', transport: HUSH}}}",
    "mcp: {servers: {s: {url: 'http://x', headers: HUSH}}}",
    "mcp: {servers: {s: {url: 'http://x', headers: {HUSH}}}}",
    "mcp: {servers: {s: {url: 'http://x', headers: {'Authorization: HUSH': x}}}}",
    "mcp: {servers: {s: {url: 'http://x', headers: {HUSH: [1]}}}}",
    "mcp: {servers: {s: {command: x, env: {HUSH: 1}}}}",
    "mcp: {servers: {s: {command: x, args: HUSH}}}",
    "default_model: HUSH",
    "model_capabilities: {vision: HUSH}",
]


@pytest.mark.parametrize("secrets", BROKEN_SECRETS)
def test_a_fault_in_the_secrets_quotes_nothing(tmp_path: Path, secrets: str) -> None:
    folder = write_team(tmp_path, "agents: {a: {model: offline}}", "", secrets)
    with pytest.raises(TeamFaults) as caught:
        load_team(folder, {})
    assert caught.value.__context__ is None
    printed = "".join(traceback.format_exception(caught.value))
    assert "HUSH" not in printed.replace(str(folder), "")


FROM_ENVIRONMENT = [
    *("name: ${X}", "version: ${X}", "namespace: ${X} x", "team_id: ${X}", "registry_port: ${X}"),
    *(f"agents: {{b: {{{field}: '${{X}}'}}}}" for field in ("port", "kind", "model", "retry")),
    *(f"agents: {{b: {{{field}: ['${{X}}']}}}}" for field in ("depends_on", "servers")),
]


@pytest.mark.parametrize("line", FROM_ENVIRONMENT)
def test_a_fault_quotes_nothing_that_comes_from_the_environment(tmp_path: Path, line: str) -> None:
    agents = line if line.startswith("agents") else f"{line}\nagents: {{a: {{}}}}"
    fault = only_fault(write_team(tmp_path, agents), {"X": "HUSH!"})
    assert "HUSH" not in str(fault)


def test_an_unknown_field_of_the_secrets_still_gets_a_suggestion(tmp_path: Path) -> None:
    fault = only_fault(write_team(tmp_path, "agents: {a: {}}", OFFLINE, "openai:\n  apikey: HUSH"))
    assert (fault.line, fault.path) == (2, "openai.…")
    assert fault.message == "unknown field; did you mean 'api_key'?"


def test_a_value_of_the_environment_is_not_expanded_again(tmp_path: Path) -> None:
    team = load(write_team(tmp_path, "agents: {a: {title: '${X}', description: '$${X}'}}"), {"X": "${Y}"})
    assert (team.agents["a"].title, team.agents["a"].description) == ("${Y}", "${X}")


def test_a_default_replaces_an_unset_or_empty_variable(tmp_path: Path) -> None:
    folder = write_team(tmp_path, "agents: {a: {title: '${X:-one}', description: '${Y:-two} ${Z:-}'}}")
    agent = load(folder, {"X": ""}).agents["a"]
    assert (agent.title, agent.description) == ("one", "two ")


def test_every_unset_variable_is_named_with_its_line(tmp_path: Path) -> None:
    secrets = "openai:\n  api_key: ${ONE}\nanthropic:\n  api_key: ${TWO}\n"
    found = faults_of(write_team(tmp_path, "agents: {a: {}}", OFFLINE, secrets))
    assert [(it.line, it.message) for it in found] == [
        (2, "environment variable 'ONE' is not set and has no default"),
        (4, "environment variable 'TWO' is not set and has no default"),
    ]


def web(url: str = "https://a.test/mcp", name: str = "web", **headers: str) -> HttpServer:
    return HttpServer(name, SecretStr(url), {key: SecretStr(value) for key, value in headers.items()})


def test_servers_share_a_key_when_address_and_credential_are_equal() -> None:
    assert web(A="1", B="2").key() == web(name="other", b="2", a="1").key()
    assert len({web(A="1").key(), web(A="2").key(), web(B="1").key(), web("https://b.test/mcp", A="1").key()}) == 4


def test_the_key_of_a_server_is_sixteen_hex_digits_that_never_change() -> None:
    assert web(Authorization="Bearer x").key() == "14e46451836c4666"


def tool(command: str = "run", *args: str, home: str = "t:.", cwd: str = "/a", **env: str) -> StdioServer:
    secrets = {key: SecretStr(value) for key, value in env.items()}
    return StdioServer("tool", SecretStr(command), tuple(map(SecretStr, args)), secrets, Path(cwd), home)


def test_the_key_of_a_stdio_server_depends_on_command_arguments_environment_and_home() -> None:
    assert tool(cwd="/a").key() == tool(cwd="/b").key()
    others = [tool("ran"), tool("run", "x"), tool("run", X="1"), tool(home="u:.")]
    assert len({tool().key(), *(other.key() for other in others)}) == 5


def test_a_folder_has_the_same_keys_wherever_it_is_mounted(tmp_path: Path) -> None:
    agents = "name: t\nagents: {a: {servers: [s]}}"
    config = f"{OFFLINE}mcp: {{servers: {{s: {{command: run, cwd: tools}}}}}}"
    teams = [load(write_team(tmp_path / where, agents, config)) for where in ("one", "two")]
    first, second = (team.dependencies(team.agents["a"]) for team in teams)
    assert first == second


def test_the_key_of_a_provider_depends_on_address_and_credential() -> None:
    one = ProviderConfig("openai", SecretStr("https://a"), SecretStr("k"))
    assert one.key() == ProviderConfig("openai", SecretStr("https://a"), SecretStr("k")).key()
    assert one.key() != ProviderConfig("openai", SecretStr("https://a"), SecretStr("l")).key()
    assert one.key() != ProviderConfig("openai", SecretStr("https://b"), SecretStr("k")).key()


def test_the_environment_gives_the_api_key_of_a_provider_at_its_own_address(tmp_path: Path) -> None:
    team = load(write_team(tmp_path, "agents: {a: {}}", "default_model: openai.gpt-5"), {"OPENAI_API_KEY": "k"})
    provider = team.providers["openai"]
    assert provider.api_key == SecretStr("k")
    assert provider.base_url == SecretStr("https://api.openai.com/v1")


def test_an_api_key_of_the_environment_is_not_used_at_another_address(tmp_path: Path) -> None:
    config = "default_model: openai.gpt-5\nopenai: {base_url: 'http://elsewhere.test/v1'}"
    team = load(write_team(tmp_path, "agents: {a: {}}", config), {"OPENAI_API_KEY": "k"})
    assert team.providers["openai"].api_key is None
