"""A folder without faults: how its fields are read, and their defaults."""

from pathlib import Path

import pytest
from tests.requirements import requirement
from tests.unit.teams.folders import load, write_team

from pallas_contracts.agents import Allow, Capabilities, Icon, Limits
from pallas_contracts.costs import Budget, TeamBudget
from pallas_teams import HttpServer, ModelRef, StdioServer, load_team, reveal

BUDGET = TeamBudget(
    tokens_per_day=5_000_000,
    money_per_day=20.5,
    currency="EUR",
    per_caller=Budget(tokens_per_day=0, currency="EUR"),
)

FULL = """
    name: research-team
    version: 1.2.3-rc.1
    host: puck.incus
    namespace: ca.helu.ouranos
    registry_port: 23030
    team_id: 0193F2A1-8C1B-7B62-9D3E-1F0A5B6C7D8E
    budget: {tokens_per_day: 5000000, money_per_day: 20.5, currency: EUR, per_caller: {tokens_per_day: 0}}
    agents:
      harper:
        port: 24101
        title: Harper
        description: Talks
        version: 2.0.0
        icon: icons/harper.svg
        depends_on: [add]
        servers: [argos, files]
        model: anthropic.claude-sonnet-4.5
        model_capabilities: {vision: true, context_window: 200000, max_output_tokens: 8192}
        instruction_file: harper.md
        max_iterations: 7
        turn_timeout: 30
        queue_timeout: 5.5
        max_concurrency: 4
        max_queued: 9
        max_attempts: 1
        max_rate: 20
        max_rate_per_caller: 0.5
        keep: {failed: 12h}
        retry: safe
        tools: {argos/write: {retry: unsafe}}
        allow: {types: [turn], teams: [0193F2A1-8c1b-7b62-9d3e-1f0a5b6c7d8e], tokens: []}
      add:
        kind: function
        module: add.py
      far:
        kind: function
        module: my_team.tools
      plain:
        servers: [argos]
        on_unknown_tool_outcome: tell_model
        tools: {argos/search: {retry: safe}, argos/write: {retry: unsafe}}
      bare: {}
    """
CONFIG = """
    default_model: generic.llama3.2:latest
    model_capabilities: {context_window: 8192}
    generic: {base_url: "http://127.0.0.1:11434/v1/"}
    mcp:
      servers:
        argos: {url: "https://argos.test/mcp"}
        files: {command: npx, args: [-y, files], env: {ROOT: "${ROOT:-/srv}"}, cwd: tools}
    """
SECRETS = """
    anthropic: {api_key: sk-ant}
    mcp: {servers: {argos: {headers: {Authorization: "Bearer ${TEAM_JWT}"}}}}
    """


def full_team(tmp_path: Path):
    folder = write_team(tmp_path, FULL, CONFIG, SECRETS, harper__md="Be brief. ${NOT_EXPANDED}\n", add__py="")
    return load(folder, {"TEAM_JWT": "jwt"})


def test_every_field_of_a_full_team_is_read(tmp_path: Path) -> None:
    team = full_team(tmp_path)
    assert (team.name, team.version, team.host) == ("research-team", "1.2.3-rc.1", "puck.incus")
    assert (team.namespace, team.registry_port) == ("ca.helu.ouranos", 23030)
    assert team.team_id == "0193f2a1-8c1b-7b62-9d3e-1f0a5b6c7d8e"
    harper = team.agents["harper"]
    assert (harper.name, harper.kind, harper.title, harper.description) == ("harper", "llm", "Harper", "Talks")
    assert (harper.version, harper.port, harper.icon) == ("2.0.0", 24101, Icon(src="icons/harper.svg"))
    assert (harper.depends_on, harper.servers) == (("add",), ("argos", "files"))
    assert harper.model == ModelRef("anthropic", "claude-sonnet-4.5")
    assert harper.instruction == "Be brief. ${NOT_EXPANDED}\n"
    assert (harper.max_iterations, harper.retry) == (7, "safe")
    assert harper.limits == Limits(
        turn_timeout=30,
        queue_timeout=5.5,
        max_concurrency=4,
        max_queued=9,
        max_attempts=1,
        max_rate=20,
        max_rate_per_caller=0.5,
        budget=BUDGET,
        keep={"failed": 43_200},
    )
    plain = team.agents["plain"]
    assert plain.on_unknown_tool_outcome == "tell_model"
    assert [plain.may_repeat("argos", tool) for tool in ("search", "write", "other")] == [True, False, None]
    assert [harper.may_repeat(server, "write") for server in ("files", "argos")] == [True, False]
    assert harper.allow == Allow(types=("turn",), teams=("0193f2a1-8c1b-7b62-9d3e-1f0a5b6c7d8e",))


def test_defaults_are_those_of_the_reference(tmp_path: Path) -> None:
    agent = full_team(tmp_path).agents["bare"]
    assert (agent.kind, agent.title, agent.version, agent.port) == ("llm", "bare", "1.2.3-rc.1", None)
    assert (agent.on_unknown_tool_outcome, agent.retry_of_tools) == ("fail", {})
    assert (agent.max_iterations, agent.retry, agent.limits) == (20, "unsafe", Limits(budget=BUDGET))
    assert agent.allow is None
    assert (agent.servers, agent.depends_on, agent.instruction) == ((), (), "")
    assert str(agent.model) == "generic.llama3.2:latest"


def test_a_function_agent_has_a_module_and_no_model(tmp_path: Path) -> None:
    team = full_team(tmp_path)
    assert team.agents["add"].module == tmp_path / "add.py"
    assert team.agents["far"].module == "my_team.tools"
    assert team.model_dependency(team.agents["add"]) is None
    assert team.capabilities(team.agents["add"]) is None


@requirement("A-4.3.1")
def test_secrets_are_merged_into_the_configuration(tmp_path: Path) -> None:
    server = full_team(tmp_path).servers["argos"]
    assert isinstance(server, HttpServer)
    assert server.url.get_secret_value() == "https://argos.test/mcp"
    assert reveal(server.headers) == {"Authorization": "Bearer jwt"}


def test_a_stdio_server_runs_in_a_folder_within_the_team_folder(tmp_path: Path) -> None:
    server = full_team(tmp_path).servers["files"]
    assert isinstance(server, StdioServer)
    assert server.command.get_secret_value() == "npx"
    assert [arg.get_secret_value() for arg in server.args] == ["-y", "files"]
    assert (reveal(server.env), server.cwd) == ({"ROOT": "/srv"}, tmp_path / "tools")


def test_dependencies_name_servers_by_the_key_of_their_configuration(tmp_path: Path) -> None:
    team = full_team(tmp_path)
    argos, files = team.dependencies(team.agents["harper"])
    assert (argos.name, argos.key, argos.transport) == ("argos", team.servers["argos"].key(), "http")
    assert (files.name, files.key, files.transport) == ("files", team.servers["files"].key(), "stdio")
    assert team.dependencies(team.agents["bare"]) == ()


def test_a_model_dependency_names_provider_and_model(tmp_path: Path) -> None:
    team = full_team(tmp_path)
    needed = team.model_dependency(team.agents["harper"])
    assert needed is not None
    assert (needed.provider, needed.model) == ("anthropic", "claude-sonnet-4.5")
    assert needed.key == team.providers["anthropic"].key()


def test_an_agents_own_capabilities_replace_the_default_ones(tmp_path: Path) -> None:
    team = full_team(tmp_path)
    assert team.capabilities(team.agents["harper"]) == Capabilities(
        model="claude-sonnet-4.5", vision=True, context_window=200000, max_output_tokens=8192
    )
    assert team.capabilities(team.agents["plain"]) == Capabilities(model="llama3.2:latest", context_window=8192)


def test_capabilities_are_published_only_when_configured(tmp_path: Path) -> None:
    team = load(write_team(tmp_path, "agents: {a: {}}"))
    assert team.capabilities(team.agents["a"]) is None


def test_a_team_without_a_name_is_named_after_its_folder(tmp_path: Path) -> None:
    team = load(write_team(tmp_path / "My Team (2)", "agents: {a: {}}"))
    assert (team.name, team.version, team.namespace) == ("my-team-2", "0.0.0", "local.pallas")


def test_a_folder_of_functions_needs_no_configuration(tmp_path: Path) -> None:
    folder = write_team(tmp_path, "agents: {f: {kind: function, module: f.py}}", f__py="")
    (folder / "fastagent.config.yaml").unlink()
    assert load(folder).providers == {}


def test_a_provider_that_no_agent_uses_is_loaded_once_it_can_be_called(tmp_path: Path) -> None:
    folder = write_team(tmp_path, "agents: {a: {}}")
    config = "default_model: offline\ngeneric: {base_url: http://127.0.0.1:9/v1}\nopenai: {}\n"
    (folder / "fastagent.config.yaml").write_text(config)
    assert set(load(folder).providers) == {"offline", "generic"}
    assert set(load_team(folder, {"OPENAI_API_KEY": "k"}).providers) == {"offline", "generic", "openai"}


def test_numbers_may_come_from_the_environment(tmp_path: Path) -> None:
    team = load(write_team(tmp_path, "agents: {a: {port: '${PORT}', turn_timeout: '${T:-1.5}'}}"), {"PORT": "8080"})
    assert (team.agents["a"].port, team.agents["a"].limits.turn_timeout) == (8080, 1.5)


def test_a_field_without_a_value_counts_as_absent(tmp_path: Path) -> None:
    team = load(write_team(tmp_path, "agents:\n  a:\n    servers:\n    port:\n", OFFLINE_WITH_EMPTY_SECTIONS))
    assert (team.agents["a"].servers, team.agents["a"].port) == ((), None)


OFFLINE_WITH_EMPTY_SECTIONS = "default_model: offline\nopenai:\nmcp:\n  servers:\n"


@pytest.mark.parametrize(
    ("team", "agent", "failed", "completed"),
    [
        ("", "", None, None),
        ("7d", "", 604_800, 604_800),
        ("7d", "90m", 5400, 5400),
        ("7d", "0", 0, 0),
        ("", "{failed: 1.5h, completed: 30}", 5400, 30),
        ("7d", "{failed: 1d}", 86_400, None),
    ],
)
def test_an_agent_keeps_content_as_long_as_its_team_unless_it_says_otherwise(
    tmp_path: Path, team: str, agent: str, failed: float | None, completed: float | None
) -> None:
    of_team, of_agent = (f"keep: {spans}" if spans else "" for spans in (team, agent))
    folder = write_team(tmp_path, f"{of_team}\nagents: {{a: {{model: offline, {of_agent}}}}}")
    keep = load(folder).agents["a"].limits.keep
    assert (keep.get("failed"), keep.get("completed")) == (failed, completed)
