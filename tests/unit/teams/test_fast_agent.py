"""Folders of fast-agent: what is found in them without running their code, and how their settings are translated."""

from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.teams.folders import faults_of, load, only_fault, write_team

from pallas_teams import HttpServer, StdioServer, TeamFaults, load_each, load_team, load_teams, reveal
from pallas_teams.clashes import team_names
from pallas_teams.fast_agent.kinds import agent_at
from pallas_teams.fast_agent.translate import FORCED, expanded, force, settings_of, translate

MODULE = """
from fast_agent import FastAgent
fast = FastAgent("Team")

@fast.agent("Harper One", instruction="Help.", model="sonnet", servers=["argos"], agents=["helper"])
@fast.agent("helper", tool_only=True)
@fast.chain(name="both", sequence=["Harper One", "helper"])
async def main(): ...
"""

CARD = "---\nname: clerk\ndescription: Keeps\n  the books.\nservers: [argos]\n---\nYou keep the books.\n"


def project(folder: Path, **files: str) -> Path:
    """A folder with these files; `__` stands for a dot, `___` for a slash."""
    for name, text in files.items():
        path = folder / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), "utf-8")
    return folder


def test_the_agents_of_an_upstream_folder_need_no_kind(tmp_path: Path) -> None:
    agents = "agents: {harper: {module: team.harper, port: 24101, depends_on: [both]}, both: {module: team.harper}}"
    folder = write_team(tmp_path, agents, "default_model: sonnet\nlogger: {type: file}\n")
    project(folder, team___harper__py=MODULE)
    team = load(folder)
    assert [(it.kind, it.module, it.model) for it in team.agents.values()] == [("fast-agent", "team.harper", None)] * 2
    assert team.agents["harper"].depends_on == ("both",)


def test_a_plain_project_is_a_team_without_agents_yaml(tmp_path: Path) -> None:
    folder = project(tmp_path / "My Project", agent__py=MODULE, fast_agent_yaml="")
    team = load(folder)
    assert (team.name, list(team.agents)) == ("my-project", ["both", "harper-one"][::-1])
    harper = team.agents["harper-one"]
    assert (harper.title, harper.member, harper.module) == ("Harper One", "Harper One", folder / "agent.py")


def test_cards_are_a_team(tmp_path: Path) -> None:
    files = {".fast-agent___agent-cards___clerk__md": CARD, ".fast-agent___agent-cards___readme__md": "# no card"}
    team = load(project(tmp_path / "books", **files))
    [clerk] = team.agents.values()
    assert (clerk.name, clerk.description) == ("clerk", "Keeps the books.")
    assert clerk.card == tmp_path / "books" / ".fast-agent" / "agent-cards" / "clerk.md"


def test_agents_of_all_kinds_may_be_in_one_folder(tmp_path: Path) -> None:
    agents = "agents: {a: {card: cards/a.md}, b: {model: offline}, c: {kind: function, module: c.py}}"
    folder = write_team(tmp_path, agents, "default_model: haiku\n", c__py="")
    project(folder, cards___a__md=CARD)
    assert [it.kind for it in load(folder).agents.values()] == ["fast-agent", "llm", "function"]


@pytest.mark.parametrize("where", ["config", "secrets", "card", "module"])
def test_a_bearer_that_would_be_passed_on_is_refused_wherever_it_is_written(tmp_path: Path, where: str) -> None:
    asked = {
        "config": "mcp: {servers: {argos: {url: 'http://argos.test', forward_inbound_auth: true}}}",
        "secrets": "mcp: {servers: {argos: {forward_inbound_auth: true}}}",
        "card": CARD.replace(
            "servers: [argos]", "mcp_connect: [{target: 'http://a.test', forward_inbound_auth: true}]"
        ),
        "module": MODULE + '\nSETTINGS = {"forward_inbound_auth": True}\n',
    }
    folder = write_team(
        tmp_path,
        "agents: {a: {module: a.py}, b: {card: cards/b.md}}",
        asked["config"] if where == "config" else "",
        asked["secrets"] if where == "secrets" else None,
        a__py=asked["module"] if where == "module" else MODULE,
    )
    project(folder, cards___b__md=asked["card"] if where == "card" else CARD)
    fault = only_fault(folder)
    assert "Put the static team JWT that replaces it into mcp.servers.<name>.headers.Authorization" in fault.message
    assert fault.line > 0


def test_a_bearer_of_the_caller_is_not_forwarded_to_hugging_face_either(tmp_path: Path) -> None:
    config = "mcp: {servers: {hf: {url: 'http://hf.test', auth: {forward: huggingface}}}}"
    fault = only_fault(write_team(tmp_path, "agents: {a: {module: a.py}}", config, a__py=MODULE))
    assert (fault.path, "static team JWT" in fault.message) == ("mcp.servers.hf.auth.forward", True)


def test_the_servers_that_can_be_probed_are_known_with_fast_agents_own_ways_to_write_them(tmp_path: Path) -> None:
    config = """
    default_model: sonnet?reasoning=low
    anything: {else: true}
    mcp:
      servers:
        time: {target: "uvx mcp-server-time --utc"}
        argos: {target: "https://argos.test/mcp", access_token: "${TOKEN:none}"}
        bus: {transport: sse, url: "http://bus.test"}
        unset: {url: "http://unset.test", headers: {X-Key: "${NOT_SET}"}}
    """
    team = load(write_team(tmp_path, "agents: {a: {module: a.py}}", config, a__py=MODULE), {"TOKEN": "t"})
    time, argos = team.servers["time"], team.servers["argos"]
    assert list(team.servers) == ["time", "argos", "unset"]
    assert isinstance(time, StdioServer)
    assert [time.command, *time.args][0].get_secret_value() == "uvx"
    assert isinstance(argos, HttpServer)
    assert reveal(argos.headers) == {"Authorization": "Bearer t"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"agent__py": "fast = FastAgent("}, "is not Python that can be read"),
        ({"agent__py": "from fast_agent import FastAgent"}, "no agent is found"),
        ({"readme__md": "# no card", "agents__md": "---\ntitle: x\n---\n"}, "no agent is found"),
        ({"agent__py": MODULE, "fast-agent__yaml": "", "fastagent__config__yaml": ""}, "reads only one of them"),
        ({"agent__py": MODULE, "fast-agent__yaml": "a: ["}, "is not valid YAML"),
        ({".fast-agent___agent-cards___a__md": "---\nname: a\n"}, "has no line of three dashes"),
        ({".fast-agent___agent-cards___a__md": "---\n- a\n---\n"}, "must be a mapping"),
        ({"agents__yaml": "agents: {a: {module: no.such}}"}, "no such module"),
        ({"agents__yaml": "agents: {a: {card: ../a.md}}"}, "must be inside the team's folder"),
        ({"agents__yaml": "agents: {a: {module: a.py, card: a.md}}", "a__py": "", "a__md": ""}, "either a module or"),
        ({"agents__yaml": "agents: {a: {module: a.py, servers: [x]}}", "a__py": ""}, "the module or the card says it"),
        ({"agents__yaml": "agents: {a: {kind: llm, model: offline, module: a.py}}", "a__py": ""}, "is for kind"),
    ],
)
def test_what_is_wrong_is_said_with_its_file(tmp_path: Path, files: dict[str, str], message: str) -> None:
    folder = project(tmp_path / "team", **files)
    [fault, *_] = faults_of(folder)
    assert message in fault.message
    assert Path(fault.file).is_relative_to(folder)


UNNAMED = (
    "from fast_agent import FastAgent\nfast = FastAgent('x')\n@fast.agent(instruction='x')\nasync def main(): ...\n"
)


@pytest.mark.parametrize(
    ("files", "agents"),
    [
        ({"agent__py": UNNAMED}, ["default"]),
        ({"src___agent__py": UNNAMED, "src___far___too___deep___b__py": UNNAMED}, ["default"]),
        ({"agent__py": UNNAMED, "src___other__py": UNNAMED}, ["default"]),
        ({"a__py": UNNAMED, "b__py": UNNAMED}, ["a", "b"]),
        ({"one___a__py": UNNAMED, "two___a__py": UNNAMED}, ["one-a", "two-a"]),
        ({"a__py": MODULE, "b__py": MODULE}, ["a-both", "a-harper-one", "b-both", "b-harper-one"]),
        ({"one___agent__py": UNNAMED, "one___fast-agent__yaml": "", "two___agent__py": UNNAMED}, ["default"]),
        ({"__venv___x___a__py": UNNAMED, "node_modules___a__py": UNNAMED, "b___agent__py": UNNAMED}, ["default"]),
        ({"agent-cards___clerk__md": CARD, "fast-agent__yaml": ""}, ["clerk"]),
        ({"clerk__md": CARD, "README__md": CARD, "SKILL__md": CARD, "fast-agent__yaml": ""}, ["clerk"]),
    ],
)
def test_agents_are_found_where_fast_agent_is_started_with_them(
    tmp_path: Path, files: dict[str, str], agents: list[str]
) -> None:
    assert sorted(load(project(tmp_path / "team", **files)).agents) == agents


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["pa/src", "pb/src", "other"], ["pa-src", "pb-src", "other"]),
        (["x/pa/src", "y/pa/src", "pb/src"], ["x-pa-src", "y-pa-src", "pb-src"]),
        (["pa/src", "pb/src", "pa-src"], ["top-pa-src", "pb-src", "pa-src"]),
        (["one/fleet", "two"], ["one-fleet", "two"]),
        (["проект", "two"], ["team-dfb992", "two"]),
    ],
)
def test_folders_of_one_name_are_told_apart_by_their_paths(
    tmp_path: Path, folders: list[str], names: list[str]
) -> None:
    paths = [tmp_path / "top" / folder for folder in folders]
    assert list(team_names(paths).values()) == names
    assert team_names(reversed(paths)) == team_names(paths)


def test_a_team_with_a_name_of_its_own_does_not_change_that_of_another(tmp_path: Path) -> None:
    named = project(tmp_path / "a" / "demo", agent__py=UNNAMED)
    (named / "agents.yaml").write_text("name: alpha\nagents: {it: {kind: fast-agent, module: agent.py}}\n", "utf-8")
    other = project(tmp_path / "b" / "demo", agent__py=UNNAMED)
    assert [team.name for team in load_teams([named, other], {})] == ["alpha", "demo"]


def test_plain_projects_can_be_hosted_together(tmp_path: Path) -> None:
    folders = [project(tmp_path / name, agent__py=UNNAMED) for name in ("one", "two")]
    assert [team.namespace for team in load_teams(folders, {})] == ["local.pallas.one", "local.pallas.two"]


@pytest.mark.parametrize(
    ("files", "line", "message"),
    [
        ({"bad__py": "from fast_agent import FastAgent\nfast = FastAgent("}, 2, "read: '(' was never closed"),
        ({"bad__py": UNNAMED.replace("(instruction", "('a' + 'b', instruction")}, 3, "agent is computed"),
        (
            {"bad__py": "from fast_agent import FastAgent\nf = FastAgent('x')\nf.load_agents('x')"},
            3,
            "there is no x with cards for load_agents",
        ),
        (
            {"bad__py": "fast = getattr(f, 'FastAgent')()\n@fast.agent('x')\ndef f(): ..."},
            2,
            "it is not seen here that",
        ),
        ({"bad__py": MODULE.replace("Harper One", "get_health")}, 5, "no agent can be called 'get_health'"),
        ({"__fast-agent___agent-cards___bad__md": "---\nname: bad\ntype: nonsense\n---\n"}, 3, "no cards of this type"),
        ({"__fast-agent___agent-cards___bad__md": "---\nname: bad\n"}, 1, "has no line of three dashes"),
        ({"agent-cards___a__md": CARD, "agent-cards___b__md": CARD}, 2, "the card agent-cards/a.md has the same name"),
    ],
)
def test_a_bad_part_is_left_out_and_told_with_its_line(
    tmp_path: Path, files: dict[str, str], line: int, message: str
) -> None:
    team = load(project(tmp_path / "team", agent__py=UNNAMED, **files))
    [fault] = team.left_out
    assert (fault.line, message in fault.message, "default" in team.agents) == (line, True, True)


def test_a_key_that_is_given_twice_is_a_warning_in_fast_agents_files_and_a_fault_in_agents_yaml(tmp_path: Path) -> None:
    twice = {"agent-cards___clerk__md": "---\nname: a\nname: clerk\n---\n"}
    twice["fast-agent__yaml"] = "default_model: a\ndefault_model: b\n"
    team = load(project(tmp_path / "team", **twice))
    assert list(team.agents) == ["clerk"]
    assert {(Path(it.file).name, it.line) for it in team.warnings} == {("clerk.md", 3), ("fast-agent.yaml", 2)}
    agents = "agents: {a: {card: agent-cards/clerk.md}}\nname: one\nname: two\n"
    assert "is given twice" in only_fault(project(tmp_path / "team", agents__yaml=agents)).message


def test_names_of_literals_are_known(tmp_path: Path) -> None:
    module = "NAME = 'Harper'\n" + UNNAMED.replace("(instruction", "(NAME, servers=[NAME], instruction")
    [agent] = load(project(tmp_path / "team", agent__py=module)).agents.values()
    assert agent.member == "Harper"


def test_merge_keys_are_followed_in_fast_agents_files(tmp_path: Path) -> None:
    settings = """
    one: &one {command: a, env: {A: "1"}}
    two: &two {command: b, cwd: "."}
    mcp: {servers: {s: {env: {B: "2"}, <<: [*one, *two]}}}
    """
    folder = project(tmp_path / "team", agent__py=UNNAMED, **{"fast-agent__yaml": settings})
    server = load(folder).servers["s"]
    assert isinstance(server, StdioServer)
    assert (reveal({"c": server.command}), reveal(server.env), server.cwd) == ({"c": "a"}, {"B": "2"}, folder)
    assert settings_of(folder, {}).settings["mcp"]["servers"]["s"]["cwd"] == "."
    (folder / "fast-agent.yaml").write_text("generic:\n  <<: 3\n", "utf-8")
    assert "must be a mapping, or a list of mappings" in only_fault(folder).message


def test_variables_of_cards_have_the_rules_of_fast_agent_and_programs_have_none(tmp_path: Path) -> None:
    card = "---\nname: ${NAME:clerk}\ndescription: ${NOT_SET}\n---\n"
    module = UNNAMED.replace("instruction=", "description='costs ${5}', instruction=")
    team = load(project(tmp_path / "team", agent__py=module, **{"agent-cards___a__md": card}))
    assert {name: agent.description for name, agent in team.agents.items()} == {
        "default": "costs ${5}",
        "clerk": "${NOT_SET}",
    }
    [warning] = team.warnings[:1]
    said = "environment variable 'NOT_SET' is not set; fast-agent uses the text as it is"
    assert (Path(warning.file).name, warning.line, warning.message) == ("a.md", 3, said)


def test_links_out_of_a_folder_are_followed_but_not_to_the_secrets_of_another_team(tmp_path: Path) -> None:
    files = {"agent__py": UNNAMED, "x___clerk__md": CARD, "fastagent__secrets__yaml": "generic: {api_key: k}\n"}
    other = project(tmp_path / "other", **files)
    folder = project(tmp_path / "team", **{"agent-cards___own__md": CARD.replace("clerk", "own")})
    (folder / "linked.py").symlink_to(other / "agent.py")
    (folder / "agent-cards" / "linked.md").symlink_to("../../other/x/clerk.md")
    (folder / "gone.py").symlink_to(other / "gone.py")
    (folder / "round").symlink_to(folder)
    assert set(load(folder).agents) == {"default", "own", "clerk"}
    (folder / "fastagent.secrets.yaml").symlink_to(other / "fastagent.secrets.yaml")
    load(folder)
    with pytest.raises(TeamFaults) as refused:
        load_teams([other, folder], {})
    [fault] = refused.value.faults
    assert (Path(fault.file).name, "the folder of another team" in fault.message) == ("fastagent.secrets.yaml", True)
    with pytest.raises(TeamFaults):
        load_team(folder, {}, beside=[other, folder])
    teams, faults = load_each([other, folder], {})
    assert (list(teams), list(faults)) == ([other], [folder])


@given(st.data())
def test_a_broken_project_is_a_fault_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from([MODULE, CARD, "default_model: [1]\nmcp: {servers: {a: {url: 1}}}"]))
    cut, junk = data.draw(st.integers(0, len(text))), data.draw(st.text(max_size=8))
    broken = text[:cut] + junk + text[cut + data.draw(st.integers(0, 9)) :]
    folder = tmp_path_factory.mktemp("mutated")
    for name in ("agent.py", "fast-agent.yaml"):
        (folder / name).write_text(broken, "utf-8", errors="replace")
    project(folder, **{".fast-agent___agent-cards___a__md": ""})
    (folder / ".fast-agent/agent-cards/a.md").write_text(broken, "utf-8", errors="replace")
    with suppress(TeamFaults):
        load_team(folder, {})


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ({"auto_sampling": False}, {"mcp": {"client": {"auto_sampling": False}}}),
        (
            {"mcp": {"servers": {"a": {"url": "http://gw/teams/t/mcp/b"}, "c": {"url": "http://gw/teams/t/mcp"}}}},
            {
                "mcp": {
                    "servers": {"a": {"url": "http://gw/teams/t/mcp/b?agent"}, "c": {"url": "http://gw/teams/t/mcp"}}
                }
            },
        ),
        ({"mcp_timeline": {"steps": 3}}, {"mcp": {"diagnostics": {"timeline": {"steps": 3}}}}),
        ({"mcp_ui_mode": "auto", "mcp_ui_output_dir": "x"}, {}),
        (
            {"mcp": {"targets": [{"name": "t", "target": "uvx x"}, "http://y.test"]}},
            {"mcp": {"servers": {"t": {"target": "uvx x"}, "target-2": {"target": "http://y.test"}}}},
        ),
        ({"key": "${SET:-no} ${NOT:-yes} ${SET:own} ${NOT}"}, {"key": "v yes v ${NOT}"}),
        ({"key": "${SET:own}"}, {"key": "v"}),
    ],
)
def test_settings_of_an_older_version_are_translated(given_: dict[str, object], wanted: dict[str, object]) -> None:
    settings = translate(expanded(given_, {"SET": "v"})).settings
    settings.setdefault("mcp", {})
    assert settings == {"mcp": {}} | wanted


def test_what_a_worker_needs_is_forced_and_said() -> None:
    own = {"logger": {"type": "file", "level": "info"}, "session_history": True, "default_model": "haiku"}
    forced = force(own)
    assert forced.settings["logger"] == {**FORCED["logger"], "level": "info"}
    assert forced.settings["default_model"] == "haiku"
    assert set(forced.notes) == {"logger.type is forced to none", "session_history is forced to false"}


def test_a_server_with_a_bearer_needs_no_browser() -> None:
    server = {"url": "http://a.test", "headers": {"authorization": "Bearer x"}}
    assert force({"mcp": {"servers": {"a": server}}}).settings["mcp"]["servers"]["a"]["auth"] == {"oauth": False}


def test_settings_that_cannot_be_read_are_faults(tmp_path: Path) -> None:
    with pytest.raises(TeamFaults):
        settings_of(project(tmp_path, **{"fast-agent__yaml": "a: ["}), {})


GATEWAYS = ("https://pallas.example.com/", "http://127.0.0.1:23050")


@pytest.mark.parametrize(
    ("url", "agent"),
    [
        ("http://puck.incus:24101/mcp", "harper"),
        ("http://localhost:24101/mcp", "harper"),
        ("http://other.incus:24101/mcp", None),
        ("http://puck.incus:24102/mcp", None),
        ("https://pallas.example.com/teams/kottos/mcp/both", "both"),
        ("https://PALLAS.example.com:443/teams/kottos/mcp/both/", "both"),
        ("http://127.0.0.1:23050/teams/kottos/mcp/both", "both"),
        ("http://pallas.example.com/teams/kottos/mcp/both", None),
        ("https://elsewhere.example.com/teams/kottos/mcp/both", None),
        ("https://pallas.example.com/other/teams/kottos/mcp/both", None),
        ("https://pallas.example.com/teams/mentor/mcp/both", None),
        ("http://127.0.0.1:23050/teams/kottos/mcp/plain", None),
        ("http://127.0.0.1:no-port/mcp", None),
    ],
)
def test_a_server_is_an_agent_of_the_folder_only_at_its_port_or_at_a_gateway(
    tmp_path: Path, url: str, agent: str | None
) -> None:
    agents = "harper: {module: team.harper, port: 24101}, both: {module: team.harper}, plain: {model: offline}"
    folder = write_team(tmp_path, f"name: kottos\nhost: puck.incus\nagents: {{{agents}}}", "default_model: sonnet\n")
    project(folder, team___harper__py=MODULE)
    found = agent_at(load(folder), url, GATEWAYS)
    assert (found and found.name) == agent
