"""From a team folder to definitions: the demo team, as it is shipped."""

import json
from collections.abc import AsyncGenerator
from contextlib import nullcontext
from pathlib import Path

import jsonschema
import pytest
from tests.runtimes import a_team

from agent_worker.teams import host_team
from pallas_contracts.agents import AgentDefinition
from pallas_hosting.folders import HostedTeam
from pallas_teams import load_team

DEMO = Path(__file__).parents[3] / "teams" / "demo"


@pytest.fixture
async def demo() -> AsyncGenerator[HostedTeam]:
    team = await host_team(load_team(DEMO, {}))
    yield team
    await team.shared.close()


@pytest.fixture
def definitions(demo: HostedTeam) -> dict[str, AgentDefinition]:
    return {hosted.definition.agent: hosted.definition for hosted in demo.agents}


async def test_the_demo_team_hosts_its_three_agents(demo: HostedTeam, definitions: dict[str, AgentDefinition]) -> None:
    assert (demo.team, demo.version, demo.failed) == ("demo", "1.0.0", {})
    assert {name: it.port for name, it in definitions.items()} == {
        "harper": 23033,
        "research": 23031,
        "engineering": 23032,
    }
    harper = definitions["harper"]
    assert harper.agents == ("research", "engineering")
    assert harper.capabilities is not None
    assert harper.capabilities.model_dump() == {
        "model": "offline",
        "vision": True,
        "context_window": 200000,
        "max_output_tokens": 32000,
    }
    assert len({it.dependencies[0].key for it in definitions.values()}) == 1


async def test_an_llm_agent_is_one_tool_with_an_alias_and_an_empty_history_prompt(
    definitions: dict[str, AgentDefinition],
) -> None:
    (tool,) = definitions["research"].tools
    assert (tool.name, tool.aliases, tool.correlation) == ("research", ("send_message",), "conversation_id")
    (prompt,) = definitions["research"].prompts
    assert (prompt.name, prompt.messages) == ("research_history", ())


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        ('{"message": "hi"}', True),
        ('{"message": "hi", "history": ["bad", null, 7, {}], "conversation_id": "c"}', True),
        ('{"message": "hi", "images": [{"data": "aGk=", "mime_type": "image/png"}]}', True),
        ("{}", False),
        ('{"message": 1}', False),
        ('{"message": "hi", "images": [{}]}', False),
        ('{"message": "hi", "surprise": 1}', False),
    ],
)
async def test_the_tools_schema_accepts_only_the_arguments_of_the_contract(
    definitions: dict[str, AgentDefinition], arguments: str, valid: bool
) -> None:
    schema = definitions["harper"].tools[0].input_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    with nullcontext() if valid else pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(arguments), schema)


@pytest.mark.parametrize("statement", ["raise SystemExit", "raise KeyboardInterrupt", "raise RuntimeError"])
async def test_a_module_that_raises_on_import_fails_only_its_own_agent(tmp_path: Path, statement: str) -> None:
    agents = "name: demo\nagents:\n  bad: {kind: function, module: bad.py}\n  good: {kind: function, module: good.py}\n"
    module = "from agent_worker.functions import FunctionAgent\nagent = FunctionAgent()\n"
    team = await a_team(tmp_path, {"agents.yaml": agents, "good.py": module, "bad.py": f"{statement}\n"})
    await team.shared.close()
    assert ([hosted.definition.agent for hosted in team.agents], list(team.failed)) == (["good"], ["bad"])


async def test_an_agent_cannot_depend_on_a_function_agent(tmp_path: Path) -> None:
    agents = "name: demo\nagents:\n  harper: {depends_on: [tools]}\n  tools: {kind: function, module: tools.py}\n"
    module = "from agent_worker.functions import FunctionAgent\nagent = FunctionAgent()\n"
    files = {"agents.yaml": agents, "tools.py": module, "fastagent.config.yaml": "default_model: offline\n"}
    team = await a_team(tmp_path, files)
    await team.shared.close()
    assert [hosted.definition.agent for hosted in team.agents] == ["tools"]
    assert "not an LLM agent" in team.failed["harper"]


@pytest.mark.parametrize(
    ("title", "pattern", "reason"),
    [
        ("Odd", "(?=a)b", "tool 'say': input_schema/properties/text/pattern: the pattern has to be"),
        ("x" * 1001, "a", "its definition cannot be used: title: String should have at most 1000 characters"),
    ],
)
async def test_an_agent_with_an_unusable_definition_fails_and_its_team_is_hosted(
    tmp_path: Path, title: str, pattern: str, reason: str
) -> None:
    agents = "name: demo\nagents:\n  fine: {kind: function, module: fine.py}\n  odd: {kind: function, module: odd.py}\n"
    module = (
        "from pallas_hosting.functions import FunctionAgent\nagent = FunctionAgent()\n"
        "@agent.tool('say', title=%r, input_schema={'properties': {'text': {'pattern': %r}}})\n"
        "async def say(ctx, arguments):\n    return 'said'\n"
    )
    files = {"agents.yaml": agents, "fine.py": module % ("Fine", "a"), "odd.py": module % (title, pattern)}
    team = await a_team(tmp_path, files)
    await team.shared.close()
    assert [hosted.definition.agent for hosted in team.agents] == ["fine"]
    assert reason in team.failed["odd"]
    assert [(it.agent, it.tools) for it in team.unstarted] == [("odd", ())]


async def test_an_agent_whose_definition_makes_those_of_its_team_too_large_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = "".join(f"  {name}: {{kind: function, module: {name}.py}}\n" for name in ("a", "big", "c"))
    module = "from pallas_hosting.functions import FunctionAgent\nagent = FunctionAgent()\nagent.tool('say', %r)(str)\n"
    files = {f"{name}.py": module % name for name in ("a", "c")} | {"big.py": module % ("x" * 3000)}
    monkeypatch.setattr("pallas_hosting.definition.LARGEST_TEAM", 3000)
    team = await a_team(tmp_path, {"agents.yaml": f"name: demo\nagents:\n{agents}", **files})
    await team.shared.close()
    assert [hosted.definition.agent for hosted in team.agents] == ["a", "c"]
    assert team.failed == {"big": "its definition cannot be used: with it, the team's are larger than 3000 bytes"}
