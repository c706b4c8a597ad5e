"""Programs of fast-agent as people write them: their agents are seen, and what they lack is told."""

from pathlib import Path
from textwrap import indent

import pytest
from tests.unit.teams.folders import load
from tests.unit.teams.test_fast_agent import CARD, project

IMPORT, ASK = "from fast_agent import FastAgent\n", "@fast.agent('asker', instruction='x')\nasync def ask(): ...\n"
MAKE = "fast = FastAgent('x')\n"
SHARED = "from common import fast\n" + ASK


@pytest.mark.parametrize(
    ("files", "agents"),
    [
        ({"a__py": "from fast_agent.core.fastagent import FastAgent as FA\nfast = FA('x')\n" + ASK}, {"asker": "a.py"}),
        ({"a__py": "import fast_agent as f\nfast = f.FastAgent('x')\n" + ASK}, {"asker": "a.py"}),
        ({"a__py": IMPORT + "class Own(FastAgent): ...\nfast = Own('x')\n" + ASK}, {"asker": "a.py"}),
        ({"a__py": f"{IMPORT}Own = FastAgent\nif (fast := Own('x')): ...\n{ASK}"}, {"asker": "a.py"}),
        (
            {"a__py": "try:\n    from fast_agent import FastAgent as FA\nexcept ImportError: ...\nfast = FA()\n" + ASK},
            {"asker": "a.py"},
        ),
        ({"a__py": f"{IMPORT}{MAKE}fast.agent('asker', instruction='x')(print)\n"}, {"asker": "a.py"}),
        (
            {
                "common__py": "from fast_agent import FastAgent as FA\n",
                "a__py": f"from common import FA\nfast = FA()\n{ASK}",
            },
            {"asker": "a.py"},
        ),
        ({"common__py": IMPORT + MAKE, "a__py": SHARED}, {"asker": "a.py"}),
        (
            {"common__py": IMPORT + MAKE, "a__py": "import common\n" + ASK.replace("@fast", "@common.fast")},
            {"asker": "a.py"},
        ),
        (
            {"common__py": IMPORT + MAKE, "a__py": SHARED, "main__py": "import a\nfrom common import *\nfast.run()\n"},
            {"asker": "a.py"},
        ),
        (
            {
                "common__py": IMPORT + MAKE,
                "a__py": SHARED,
                "b__py": SHARED.replace("asker", "other"),
                "main__py": "import a, b\nfrom common import fast\nfast.run()\n",
            },
            {"asker": "main.py", "other": "main.py"},
        ),
        (
            {
                "own___common__py": IMPORT + MAKE,
                "own___a__py": SHARED.replace("common", ".common"),
                "own_____init____py": "",
            },
            {"asker": "own.a"},
        ),
        (
            {
                "a__py": f"{IMPORT}from b import add\n{MAKE}add(fast)\n",
                "b__py": f"def add(fast):\n{indent(ASK, '    ')}",
            },
            {"asker": "a.py"},
        ),
        ({"a__py": f"{IMPORT}async def main():\n{indent(MAKE + ASK, '    ')}"}, {"asker": "a.py"}),
        (
            {
                "a__py": IMPORT
                + "class App:\n  def make(self):\n"
                + indent("self." + MAKE + ASK.replace("@", "@self."), "    ")
            },
            {"asker": "a.py"},
        ),
        ({"a__py": f"{IMPORT}{MAKE}fast.load_agents('cards')\n", "cards___clerk__md": CARD}, {"clerk": "a.py"}),
        (
            {
                "a__py": IMPORT + MAKE + "HERE = Path(__file__).parent\nfast.load_agents(HERE / 'agent-cards')\n",
                "agent-cards___clerk__md": CARD,
            },
            {"clerk": "a.py"},
        ),
        ({"a__py": f"{IMPORT}{MAKE}{ASK}{ASK}"}, {"asker": "a.py"}),
        ({"a__py": f"{IMPORT}def make():\n    {MAKE}    return fast\nfast = make()\n{ASK}"}, {"asker": "a.py"}),
        ({"a__py": "fast = importlib.import_module('fast_agent').FastAgent()\n" + ASK}, {"asker": "a.py"}),
    ],
)
def test_a_fast_agent_is_seen_however_a_program_gets_it(
    tmp_path: Path, files: dict[str, str], agents: dict[str, str]
) -> None:
    folder = project(
        tmp_path / "team", **{name.replace("_____init____", "___@init@__"): text for name, text in files.items()}
    )
    for path in folder.rglob("@init@.py"):
        path.rename(path.with_name("__init__.py"))
    team = load(folder)
    sources = {name: it.module.name if isinstance(it.module, Path) else it.module for name, it in team.agents.items()}
    assert (sources, team.left_out) == (agents, ())


@pytest.mark.parametrize(
    ("names", "addresses"),
    [
        (["Harper", "harper"], ["harper-01ab10", "harper"]),
        (["Ärger", "Straße 7"], ["arger", "strasse-7"]),
        (["分析", "分析 a"], ["agent-2af437", "a-2447fc"]),
        (["a/b", "a b"], ["a-b-cea80a", "a-b-17f84a"]),
        (["x" * 70, "x" * 71], ["x" * 57 + "-a42ad8", "x" * 57 + "-cb68db"]),
    ],
)
def test_addresses_are_unique_stable_and_valid(tmp_path: Path, names: list[str], addresses: list[str]) -> None:
    module = (
        IMPORT + MAKE + "".join(f"@fast.agent({name!r})\nasync def f{at}(): ...\n" for at, name in enumerate(names))
    )
    team = load(project(tmp_path / "team", a__py=module))
    assert [it.member for it in team.agents.values()] == names
    assert list(team.agents) == addresses


CHAIN = "@fast.chain('both', sequence=['asker',\n    'gone'])\nasync def both(): ...\n"
OTHER = "fast = FastAgent('x', config_path='other.yaml')\n"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a__py": IMPORT + MAKE + ASK + CHAIN}, [("a.py", 6, "there is no agent 'gone', which it uses")]),
        ({"a__py": IMPORT + MAKE + ASK + CHAIN + ASK.replace("'asker'", "NAME")}, []),
        (
            {"a__py": IMPORT + MAKE + ASK.replace("'x'", "'x', servers=['time']")},
            [("a.py", 3, "server 'time' is not in mcp.servers")],
        ),
        (
            {
                "agent-cards___a__md": "---\nname: a\nservers: [s]\nagents:\n  - b\n  - c\n---\n",
                "agent-cards___b__md": "---\nname: b\n---\n",
            },
            [("a.md", 3, "server 's' is not in mcp.servers"), ("a.md", 6, "there is no agent 'c', which it uses")],
        ),
        ({"a__py": IMPORT + OTHER + ASK}, [("a.py", 2, "there is no other.yaml, which config_path names")]),
        (
            {
                "a__py": IMPORT + OTHER + ASK,
                "other__yaml": "default_model: passthrough\nmcp:\n  servers: {s: {url: 'http://${GONE}'}}\n",
            },
            [("other.yaml", 3, "environment variable 'GONE' is not set")],
        ),
        (
            {
                "a__py": IMPORT
                + MAKE
                + ASK
                + ASK.replace("asker", "b")
                + ASK.replace("'asker'", "'c', model='sonnet'"),
                "fast-agent__yaml": "default_model: gpt-5?reasoning=low\n",
            },
            [
                (
                    "a.py",
                    3,
                    "model gpt-5?reasoning=low: there is no key for provider responses: set OPENAI_API_KEY",
                ),
                ("a.py", 7, "model sonnet: there is no key for provider anthropic"),
            ],
        ),
        (
            {
                "a__py": IMPORT + MAKE + ASK,
                "fast-agent__yaml": "default_model: haiku\n",
                "fastagent__secrets__yaml": "anthropic: {api_key: k}\n",
            },
            [],
        ),
        (
            {
                "a__py": IMPORT + MAKE + ASK,
                "src___b__py": IMPORT + MAKE,
                "src___c__py": IMPORT + MAKE,
                "x___agent-cards___c__md": CARD,
                "n__ipynb": "FastAgent(",
                "own___b__py": IMPORT + MAKE,
                "own___fast-agent__yaml": "",
            },
            [
                ("team", 0, "1 card is not looked at, such as x/agent-cards/c.md"),
                ("team", 0, "1 folder is not looked at, such as own"),
                ("team", 0, "1 notebook is not looked at, such as n.ipynb"),
                ("team", 0, "2 programs are not looked at, such as src/b.py"),
            ],
        ),
    ],
)
def test_what_is_missing_and_what_is_not_looked_at_is_told_with_its_line(
    tmp_path: Path, files: dict[str, str], told: list[tuple[str, int, str]]
) -> None:
    has_model = any("yaml" in name or "config_path" in text for name, text in files.items())
    team = load(project(tmp_path / "team", **files), {} if has_model else {"FAST_AGENT_MODEL": "passthrough"})
    found = sorted(
        (Path(it.file).name, it.line, it.message) for it in team.warnings if "has no model" not in it.message
    )
    assert [(*it[:2], told[at][2] in it[2]) for at, it in enumerate(found[: len(told)])] == [
        (*it[:2], True) for it in told
    ]
    assert len(found) == len(told)
