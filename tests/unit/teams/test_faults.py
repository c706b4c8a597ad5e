"""Every rule of a team folder, broken once; and all of them at once."""

import os
from pathlib import Path

import pytest
from tests.requirements import requirement
from tests.unit.teams.folders import OFFLINE, faults_of, only_fault, write_team

from pallas_contracts.errors import Rejected
from pallas_teams import TeamFaults, load_each, load_team, load_teams

AGENT_FAULTS = [
    ("agents: {a: {prot: 80}}", "agents.a.prot", "unknown field 'prot'; did you mean 'port'?"),
    ("agents: {a: {zzz: 80}}", "agents.a.zzz", "unknown field 'zzz'"),
    ("nmae: x\nagents: {a: {}}", "nmae", "unknown field 'nmae'; did you mean 'name'?"),
    ("agents: {a: {model_capabilities: {visio: true}}}", "agents.a.model_capabilities.visio", "did you mean 'vision'?"),
    ("name: My Team\nagents: {a: {}}", "name", "1 to 64 characters"),
    ("name: data\nagents: {a: {}}", "name", "the name of a service's own team"),
    ("agents: {A.b: {}}", "agents.…", "1 to 64 characters"),
    ("agents: {get_health: {}}", "agents.get_health", "every agent has a tool of that name"),
    ("name: x", "agents", "is needed"),
    ("agents: [a]", "agents", "must be a mapping"),
    ("agents: {a: 1}", "agents.a", "must be a mapping of fields"),
    ("version: 1.0\nagents: {a: {}}", "version", "must be text"),
    ("version: v1.0.0\nagents: {a: {}}", "version", "semantic version"),
    ("agents: {a: {version: '1.2'}}", "agents.a.version", "semantic version"),
    ("namespace: not ok\nagents: {a: {}}", "namespace", "reverse domain"),
    ("team_id: 12\nagents: {a: {}}", "team_id", "must be text"),
    ("team_id: abc\nagents: {a: {}}", "team_id", "must be a UUID"),
    ("agents: {a: {port: 0}}", "agents.a.port", "1024 to 65535"),
    ("agents: {a: {port: 1023}}", "agents.a.port", "1024 to 65535"),
    ("agents: {a: {port: 65536}}", "agents.a.port", "1024 to 65535"),
    ("agents: {a: {port: true}}", "agents.a.port", "must be a number"),
    ("agents: {a: {port: x}}", "agents.a.port", "must be a whole number"),
    ("registry_port: 70000\nagents: {a: {}}", "registry_port", "1 to 65535"),
    ("agents: {a: {port: 8080}, b: {port: 8080}}", "agents.b.port", "taken by agents.a"),
    ("registry_port: 8080\nagents: {a: {port: 8080}}", "agents.a.port", "taken by registry_port"),
    ("agents: {a: {turn_timeout: 0}}", "agents.a.turn_timeout", "greater than 0"),
    ("agents: {a: {queue_timeout: .inf}}", "agents.a.queue_timeout", "finite"),
    ("agents: {a: {max_iterations: 0}}", "agents.a.max_iterations", "greater than or equal to 1"),
    ("agents: {a: {max_attempts: 1.5}}", "agents.a.max_attempts", "whole number"),
    ("agents: {a: {keep: 40d}}", "agents.a.keep", "less than or equal to 2592000"),
    ("agents: {a: {keep: 2 weeks}}", "agents.a.keep", "must be a time span such as 30m, 12h or 7d"),
    ("agents: {a: {keep: {failed: 40d}}}", "agents.a.keep.failed", "less than or equal to 2592000"),
    ("agents: {a: {keep: {failed: soon}}}", "agents.a.keep.failed", "must be a time span such as 30m, 12h or 7d"),
    ("agents: {a: {keep: {lost: 1d}}}", "agents.a.keep.lost", "'completed', 'failed', 'cancelled' or 'input_required'"),
    ("agents: {a: {keep: [1d]}}", "agents.a.keep", "must be a mapping"),
    ("keep: true\nagents: {a: {}}", "keep", "must be a time span"),
    ("agents: {a: {retry: maybe}}", "agents.a.retry", "must be 'safe' or 'unsafe'"),
    (
        "agents: {a: {on_unknown_tool_outcome: hope}}",
        "agents.a.on_unknown_tool_outcome",
        "must be 'fail' or 'tell_model'",
    ),
    (
        "agents: {a: {tools: {x: {retry: safe}}}}",
        "agents.a.tools.x",
        "must be server/tool, with a server of this agent",
    ),
    ("agents: {a: {tools: {argos/: {retry: safe}}, servers: [argos]}}", "agents.a.tools.…", "must be server/tool"),
    ("agents: {a: {tools: {argos/x: {retry: perhaps}}, servers: [argos]}}", "agents.a.tools.….retry", "'safe'"),
    ("agents: {a: {tools: {argos/x: {}}, servers: [argos]}}", "agents.a.tools.….retry", "is needed"),
    ("agents: {a: {kind: robot}}", "agents.a.kind", "must be 'llm', 'function' or 'fast-agent'"),
    ("agents: {a: {depends_on: [b]}}", "agents.a.depends_on[0]", "'b' is not in agents"),
    ("agents: {a: {depends_on: b}}", "agents.a.depends_on", "must be a list"),
    ("agents: {a: {depends_on: [a]}}", "agents.a.depends_on", "a -> a"),
    ("agents: {a: {depends_on: [b, b]}, b: {}}", "agents.a.depends_on[1]", "listed twice"),
    ("agents: {a: {servers: [argoss]}}", "agents.a.servers[0]", "not in mcp.servers; did you mean 'argos'?"),
    ("agents: {a: {module: a.py}}", "agents.a.module", "no such file"),
    ("agents: {a: {kind: function}}", "agents.a.module", "is needed for kind function"),
    ("agents: {a: {kind: function, module: no.py}}", "agents.a.module", "no such file"),
    ("agents: {a: {kind: function, module: a/b}}", "agents.a.module", "dotted module name"),
    ("agents: {a: {kind: function, module: m, model: offline}}", "agents.a.model", "is only for kind llm"),
    (
        "agents: {a: {kind: function, module: m, on_unknown_tool_outcome: fail}}",
        "agents.a.on_unknown_tool_outcome",
        "is only for kind llm",
    ),
    ("agents: {a: {instruction_file: no.md}}", "agents.a.instruction_file", "no such file"),
    ("agents: {a: {instruction_file: ../no.md}}", "agents.a.instruction_file", "inside the team's folder"),
    ("agents: {a: {instruction: hi, instruction_file: agents.yaml}}", "agents.a.instruction_file", "keep only one"),
    ("agents: {a: {model: gpt-5}}", "agents.a.model", "must be offline, openai.NAME"),
    ("agents: {a: {model: mistral.x}}", "agents.a.model", "must be offline, openai.NAME"),
    ("agents: {a: {model: openai.gpt-5}}", "agents.a.model", "OPENAI_API_KEY in the environment"),
    ("agents: {a: {model: generic.x}}", "agents.a.model", "needs generic.base_url"),
    ("agents: {a: {forward_inbound_auth: true}}", "agents.a.forward_inbound_auth", "static team JWT"),
    ("agents: {a: {retry: !!bool maybe}}", "agents.a.retry", "put it in quotes"),
    ("agents: {a: {retry: !other safe}}", "agents.a.retry", "put it in quotes"),
    ("agents: {a: {port: 8001, port: 8002}}", "agents.a", "given twice, first on line 1"),
    ("agents: {a: &x {model_capabilities: *x}}", "agents.a.model_capabilities", "contains itself"),
    ("agents: {a: }}", "", "is not valid YAML"),
    ("- a", "", "must be a mapping of fields"),
    ("agents: {a: {title: \x01}}", "", "is not valid YAML"),
]


@requirement("A-9.1.4")
@pytest.mark.parametrize(("agents", "path", "message"), AGENT_FAULTS)
def test_a_fault_in_agents_yaml_is_reported_at_its_field(tmp_path: Path, agents: str, path: str, message: str) -> None:
    config = f"{OFFLINE}mcp: {{servers: {{argos: {{url: 'http://argos.test'}}}}}}"
    fault = only_fault(write_team(tmp_path, agents, config))
    assert (fault.file, fault.path) == (str(tmp_path / "agents.yaml"), path)
    assert message in fault.message


CONFIG_FAULTS = [
    ("default_modle: offline", "default_modle", "did you mean 'default_model'?"),
    ("logger: {}", "logger", "unknown field"),
    ("default_model: sonnet", "default_model", "must be offline"),
    ("default_model: anthropic.x", "default_model", "needs anthropic.api_key"),
    ("openai: {api_key: 12}", "openai.api_key", "must be text"),
    ("openai: {base_url: 'ftp://x'}", "openai.base_url", "http:// or https://"),
    ('openai: {api_key: "x\\n"}', "openai.api_key", "one line of ASCII"),
    ("mcp: {servers: {s: {url: argos.test/mcp}}}", "mcp.servers.s.url", "http:// or https://"),
    ("mcp: {servers: {s: {url: 'http://h:99999'}}}", "mcp.servers.s.url", "http:// or https://"),
    ("mcp: {servers: {s: {url: 'http://'}}}", "mcp.servers.s.url", "http:// or https://"),
    ("mcp: {servers: {s: {}}}", "mcp.servers.s", "needs a url (http) or a command (stdio)"),
    ("mcp: {servers: {s: {transport: http}}}", "mcp.servers.s.url", "needed for transport http"),
    ("mcp: {servers: {s: {transport: stdio}}}", "mcp.servers.s.command", "needed for transport stdio"),
    ("mcp: {servers: {s: {transport: sse, url: 'http://x'}}}", "mcp.servers.s.transport", "'http' or 'stdio'"),
    ("mcp: {servers: {s: {url: 'http://x', command: c}}}", "mcp.servers.s.command", "not for transport http"),
    ("mcp: {servers: {s: {command: c, headers: {A: b}}}}", "mcp.servers.s.headers", "not for transport stdio"),
    ("mcp: {servers: {'a b': {url: 'http://x'}}}", "mcp.servers.…", "1 to 64 characters"),
    ("mcp: {servers: {s: {url: 'http://x', headers: {'a b': c}}}}", "mcp.servers.s.headers", "name of an HTTP header"),
    ("mcp: {servers: {s: {url: 'http://x', headers: {A: }}}}", "mcp.servers.s.headers", "needs a value"),
    ("mcp: {servers: {s: {url: 'http://x', headers: {A: 'b '}}}}", "mcp.servers.s.headers", "no space at its ends"),
    ("mcp: {servers: {s: {url: 'http://x', headers: {A: b, a: c}}}}", "mcp.servers.s.headers", "given twice"),
    ("mcp: {servers: {s: {command: c, args: [1]}}}", "mcp.servers.s.args[0]", "must be text"),
    ("mcp: {servers: {s: {command: c, env: {A: }}}}", "mcp.servers.s.env", "with a text as its value"),
    (
        "mcp: {servers: {s: {url: 'http://x', forward_inbound_auth: false}}}",
        "mcp.servers.s.forward_inbound_auth",
        "mcp.servers.<name>.headers.Authorization in fastagent.secrets.yaml",
    ),
    ("default_model: ${MODEL}", "default_model", "environment variable 'MODEL' is not set"),
    ("default_model: ${MODEL-x}", "default_model", "${NAME:-default}"),
    ("default_model: ${MODEL", "default_model", "${NAME:-default}"),
]


@requirement("A-9.1.4")
@pytest.mark.parametrize(("config", "path", "message"), CONFIG_FAULTS)
def test_a_fault_in_the_configuration_is_reported_at_its_field(
    tmp_path: Path, config: str, path: str, message: str
) -> None:
    fault = only_fault(write_team(tmp_path, "agents: {a: {model: offline}}", config))
    assert (fault.file, fault.path) == (str(tmp_path / "fastagent.config.yaml"), path)
    assert message in fault.message


def test_a_published_field_in_the_secrets_file_is_a_fault(tmp_path: Path) -> None:
    fault = only_fault(write_team(tmp_path, "agents: {a: {}}", OFFLINE, "default_model: offline"))
    assert fault.message == "is published, so it belongs in fastagent.config.yaml"


def test_an_llm_agent_needs_a_model(tmp_path: Path) -> None:
    fault = only_fault(write_team(tmp_path, "agents: {a: {}}", ""))
    assert (fault.path, fault.line) == ("agents.a.model", 1)


def test_all_faults_of_all_files_are_reported_together(tmp_path: Path) -> None:
    agents = """
        version: one
        agents:
          a:
            prot: 1
            port: 99999
            depends_on: [b]
            servers: [nowhere]
            model: ${NO_MODEL}
          b:
            depends_on: [a]
            retry: never
            instruction_file: gone.md
        """
    config = """
        default_model: nothing
        mcp:
          servers:
            s: {url: nowhere}
        """
    secrets = """
        mcp:
          servers:
            s:
              headers: {Authorization: "Bearer ${NO_TOKEN}"}
              forward_inbound_auth: true
        """
    found = [(Path(it.file).name, it.line, it.path) for it in faults_of(write_team(tmp_path, agents, config, secrets))]
    assert found == [
        ("agents.yaml", 2, "version"),
        ("agents.yaml", 4, "agents.a.depends_on"),
        ("agents.yaml", 5, "agents.a.prot"),
        ("agents.yaml", 6, "agents.a.port"),
        ("agents.yaml", 8, "agents.a.servers[0]"),
        ("agents.yaml", 9, "agents.a.model"),
        ("agents.yaml", 12, "agents.b.retry"),
        ("agents.yaml", 13, "agents.b.instruction_file"),
        ("fastagent.config.yaml", 2, "default_model"),
        ("fastagent.config.yaml", 5, "mcp.servers.s.url"),
        ("fastagent.secrets.yaml", 5, "mcp.servers.s.headers"),
        ("fastagent.secrets.yaml", 6, "mcp.servers.s.forward_inbound_auth"),
    ]


def test_a_fault_reads_as_file_line_column_field_and_sentence(tmp_path: Path) -> None:
    fault = only_fault(write_team(tmp_path, "agents:\n  a:\n    retry: never\n"))
    assert str(fault) == f"{tmp_path}/agents.yaml:3:12: agents.a.retry: must be 'safe' or 'unsafe'"


def test_faults_are_a_rejection_with_one_line_each(tmp_path: Path) -> None:
    folder = write_team(tmp_path, "agents: {a: {retry: x, kind: y}}")
    with pytest.raises(Rejected) as caught:
        load_team(folder, {})
    assert isinstance(caught.value, TeamFaults)
    assert caught.value.code == "bad_team"
    assert caught.value.message.splitlines() == [str(fault) for fault in caught.value.faults]
    assert len(caught.value.faults) == 2


def test_a_longer_cycle_is_reported_once(tmp_path: Path) -> None:
    agents = "agents: {x: {depends_on: [a]}, a: {depends_on: [b]}, b: {depends_on: [c]}, c: {depends_on: [a]}}"
    assert only_fault(write_team(tmp_path, agents)).message == "is a cycle: a -> b -> c -> a"


def test_a_diamond_of_dependencies_is_no_cycle(tmp_path: Path) -> None:
    agents = "agents: {a: {depends_on: [b, c]}, b: {depends_on: [d]}, c: {depends_on: [d]}, d: {}}"
    assert load_team(write_team(tmp_path, agents), {}).agents["a"].depends_on == ("b", "c")


def test_an_unreadable_configuration_is_the_only_fault(tmp_path: Path) -> None:
    fault = only_fault(write_team(tmp_path, "agents: {a: {servers: [s]}}", "mcp: ["))
    assert Path(fault.file).name == "fastagent.config.yaml"


def test_a_folder_without_agents_yaml_is_refused(tmp_path: Path) -> None:
    fault = only_fault(tmp_path)
    assert str(fault).startswith(f"{tmp_path}: no agent is found: there is no agents.yaml")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert only_fault(tmp_path / "gone").message == "is not a folder"


def test_a_file_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    folder = write_team(tmp_path, "")
    (folder / "agents.yaml").write_bytes(b"agents:\n  a: \xff\n")
    fault = only_fault(folder)
    assert (fault.line, fault.message) == (2, "is not UTF-8 text")


def test_two_folders_with_one_name_are_refused(tmp_path: Path) -> None:
    folders = [write_team(tmp_path / x, f"name: t\nagents: {{{x}: {{}}}}") for x in ("one", "two")]
    with pytest.raises(TeamFaults, match=r"two/agents.yaml:1:7: name: the team name is taken by .*/one"):
        load_teams(folders, {})


def test_two_agents_with_one_namespace_and_name_are_refused(tmp_path: Path) -> None:
    folders = [write_team(tmp_path / x, "agents: {a: {}}") for x in ("one", "two")]
    with pytest.raises(TeamFaults, match=r"two/agents.yaml:1:10: agents.a: namespace and name are taken by .*/one"):
        load_teams(folders, {})


def test_agents_of_one_name_may_live_in_two_namespaces(tmp_path: Path) -> None:
    folders = [write_team(tmp_path / x, f"namespace: org.{x}\nagents: {{a: {{}}}}") for x in ("one", "two")]
    assert [team.name for team in load_teams(folders, {})] == ["one", "two"]


def test_one_port_for_agents_of_two_folders_is_refused(tmp_path: Path) -> None:
    folders = [write_team(tmp_path / x, f"agents: {{{x}: {{port: 8080}}}}") for x in ("one", "two")]
    with pytest.raises(TeamFaults, match=r"agents.two.port: the port is taken by agents.one of "):
        load_teams(folders, {})


def test_clashes_are_reported_together_with_other_faults(tmp_path: Path) -> None:
    folders = [write_team(tmp_path / x, "agents: {a: {retry: never}}") for x in ("one", "two")]
    with pytest.raises(TeamFaults) as caught:
        load_teams(folders, {})
    assert len(caught.value.faults) == 3


_BOMBS = {
    "brackets": ("x: " + "[" * 5000 + "]" * 5000, "more than 100 levels"),
    "keys": ("? " * 5000 + "a", "more than 100 levels"),
    "aliases": (
        "x0: &a0 [z,z,z,z,z,z,z,z,z,z]\n"
        + "".join(f"x{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
        "more than 50000 values",
    ),
    "chain": ("x0: &a0 [z]\n" + "".join(f"x{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 5000)), "more than 100 levels"),
    "number": ("x: 1" + ":59" * 100_000, "put it in quotes"),
    "float": ("x: 1.5" + "9" * 2000, "put it in quotes"),
    "bytes": ("x: " + "y" * 600_000, "larger than 512 KiB"),
}


@pytest.mark.parametrize("bomb", _BOMBS)
def test_a_file_that_costs_too_much_to_read_is_refused(tmp_path: Path, bomb: str) -> None:
    text, reason = _BOMBS[bomb]
    faults = faults_of(write_team(tmp_path, f"agents: {{a: {{}}}}\n{text}\n"))
    assert any(reason in fault.message for fault in faults), faults


@pytest.mark.parametrize("name", ["agents.yaml", "fastagent.secrets.yaml"])
def test_a_pipe_is_not_read(tmp_path: Path, name: str) -> None:
    folder = write_team(tmp_path, "agents: {a: {}}")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert only_fault(folder).message == "is not a file"


def test_a_module_that_cannot_be_parsed_is_a_fault_of_its_folder_only(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "agent.py").write_text("from fast_agent import FastAgent\nx = " + "-" * 200_000 + "1\n")
    good = write_team(tmp_path / "good", "agents: {a: {}}")
    taken = write_team(tmp_path / "taken", "name: good\nagents: {b: {}}")
    teams, refused = load_each([bad, good, taken], {})
    assert list(teams) == [good]
    assert set(refused) == {bad, taken}
    assert "taken by" in refused[taken].message


@pytest.mark.parametrize("name", ["big.md", "big.py"])
def test_a_file_of_any_size_is_refused_without_being_read(name: str, tmp_path: Path) -> None:
    folder = write_team(tmp_path, f"agents: {{a: {{instruction_file: {name}}}}}", OFFLINE)
    (folder / name).touch()
    os.truncate(folder / name, 1 << 40)
    if name.endswith(".py"):
        (folder / "agents.yaml").unlink()
        (folder / "team.py").write_text("from fast_agent import FastAgent")
    assert any("larger than 4 MiB" in it.message for it in faults_of(folder))
