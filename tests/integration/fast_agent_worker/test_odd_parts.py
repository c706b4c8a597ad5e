"""A folder without `agents.yaml`, in which much does not work: each part is told, and everything else works."""

import base64
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.e2e.calls import call_with
from tests.integration.fast_agent_worker.scripted_model import Model, scripted_model
from tests.integration.fast_agent_worker.stage import Stage, a_stage, python, until_hosted
from tests.integration.real_parts import until

from pallas_bus import kv
from pallas_contracts.catalog import AGENTS as DEFINITIONS
from pallas_contracts.catalog import WORKERS

PYTHON = python()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 40).decode()

PROGRAM = """
import asyncio
from fast_agent import FastAgent
from fast_agent.agents import McpAgent

fast = FastAgent("odd", config_path="settings/fastagent.config.yaml")


class Mine(McpAgent):
    def __init__(self, *_arguments, **_options):
        raise RuntimeError("no database")


@fast.agent("good", "You help.", model="passthrough")
@fast.agent("serverless", "You help.", model="passthrough", servers=["nowhere"])
@fast.agent("lonely", "You help.", model="passthrough", agents=["nobody"])
@fast.chain("boss", sequence=["good", "lonely"])
@fast.custom(Mine, "classless", instruction="You help.", model="passthrough")
@fast.agent("ends", "You help.", model="passthrough", servers=["ends"])
@fast.agent("cut-off", "You help.", model="passthrough", servers=["away"])
@fast.agent("refused", "You help.", model="gpt-5")
@fast.agent("unpackaged", "You help.", model="bedrock.amazon.nova-lite-v1:0")
async def main():
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
"""
UNPARSED = """from fast_agent import FastAgent
fast = FastAgent("unparsed", config_path="settings/broken.yaml")
@fast.agent("unparsed", "You help.")
async def main(): ...
"""
SETTINGS = f"""
openai: {{api_key: k, base_url: "http://127.0.0.1:9"}}
llm_retries: 3
mcp:
  servers:
    away: {{url: "http://127.0.0.1:9/mcp"}}
    ends: {{command: "{PYTHON}", args: ["-c", "import sys; sys.exit('loading\\\\nno licence')"]}}
"""
AGENTS = """
agents:
  good: {module: src/odd.py}
  serverless: {module: src/odd.py}
  lonely: {module: src/odd.py}
  boss: {module: src/odd.py}
  classless: {module: src/odd.py}
  ends: {module: src/odd.py}
  cut-off: {module: src/odd.py}
  refused: {module: src/odd.py}
  unpackaged: {module: src/odd.py}
  blind: {card: cards/blind.md, model: generic.some-vl, model_capabilities: {vision: false}}
  seer: {card: cards/seer.md, model: generic.some-vl, model_capabilities: {vision: true}}
  bad: {card: cards/bad.md}
  form: {card: cards/form.md}
  toolless: {card: cards/toolless.md}
  unparsed: {module: src/unparsed.py}
"""
FORM = """---
name: form
model: generic.some-vl
model: generic.other
tool_input_schema:
  type: object
  properties: {city: {type: string, description: Where}, history: {type: string}}
  required: [city]
  additionalProperties: false
---
{{env}}
"""

FILES = {
    "agents.yaml": AGENTS,
    "src/odd.py": PROGRAM,
    "src/unparsed.py": UNPARSED,
    "settings/fastagent.config.yaml": SETTINGS,
    "settings/broken.yaml": "a: [\n",
    "cards/form.md": FORM,
    "cards/bad.md": "---\nname: bad\ntype: nonsense\n---\nYou see.\n",
    "cards/toolless.md": "---\nname: toolless\nmodel: passthrough\nfunction_tools: [gone.py:save]\n---\nYou.\n",
    **{f"cards/{name}.md": f"---\nname: {name}\n---\nYou see.\n" for name in ("blind", "seer")},
}


@pytest.fixture(scope="module")
def model() -> Generator[Model]:
    with scripted_model() as running:
        yield running


@pytest.fixture(scope="module")
async def stage(nats_url: str, model: Model, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """A worker for the folder."""
    place = tmp_path_factory.mktemp("odd")
    settings = f"generic: {{api_key: '${{NOT_SET}}', base_url: '{model.url}'}}\n"
    for name, text in {**FILES, "fastagent.config.yaml": settings}.items():
        path = place / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    async with a_stage(nats_url, place, "odd", place / "source") as running:
        for name in ("good", "seer", "ends", "refused", "form"):
            await until_hosted(running, name)
        yield running


async def test_what_works_is_hosted_beside_what_does_not(stage: Stage) -> None:
    assert (await stage.call("good", "hello")).text == "hello"


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("serverless", "nowhere"),
        ("lonely", "there is no agent 'nobody'"),
        ("boss", "there is no agent 'nobody'"),
        ("classless", "cannot be made: RuntimeError (src/odd.py:11)"),
        ("bad", "its card cannot be loaded"),
        ("unparsed", "Failed to parse YAML file: settings/broken.yaml:2 (src/unparsed.py:2)"),
        ("toolless", "Function tool module file not found for 'gone.py:save'"),
    ],
)
async def test_an_agent_that_cannot_be_made_is_told_with_the_reason(stage: Stage, agent: str, why: str) -> None:
    async with stage.client(agent) as client:
        answer = await call_with(client, agent, {"city": "Köln"})
    assert answer.error["code"] == "agent_failed"
    assert why in stage.worker.log.read_text("utf-8")


async def test_the_model_is_published_without_its_provider(stage: Stage, bus: Connecting) -> None:
    agents = await kv.snapshot(await bus("health-monitor"), DEFINITIONS)
    [model] = [it.capabilities and it.capabilities.model for it in agents.values() if it.agent == "seer"]
    assert model == "some-vl"


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("cut-off", "server away: cannot be reached: cannot connect"),
        ("ends", "server ends: cannot be reached: it ended before it had answered (loading | no licence)"),
    ],
)
async def test_a_server_that_only_fast_agent_knows_of_is_reported_with_its_last_words_while_it_is_away(
    stage: Stage, bus: Connecting, agent: str, why: str
) -> None:
    connection = await bus("health-monitor")

    async def reported() -> bool:
        [presence] = (await kv.snapshot(connection, WORKERS)).values()
        trouble = presence.troubles.get(f"odd.{agent}")
        return trouble is not None and trouble.reason == why

    await until(reported)
    if agent == "ends":
        assert '"stderr": ["loading", "no licence"]' in stage.worker.log.read_text("utf-8")


async def test_an_image_is_seen_by_the_agent_that_sees_and_refused_by_the_one_that_does_not(
    stage: Stage, model: Model
) -> None:
    model.taken()
    image = {"data": PNG, "mime_type": "image/png"}
    await stage.call("seer", "look", images=[image])
    assert "image_url" in str(model.taken())
    assert (
        "vision_required" in (await stage.call("blind", "look", images=[{"data": PNG, "mime_type": "image/png"}])).text
    )
    other = {"data": PNG, "mime_type": "image/x"}
    assert (await stage.call("seer", "look", images=[other])).error["code"] == "vision_required"
    assert model.taken() == []


async def test_a_provider_that_is_away_is_a_failure_of_the_model_after_one_call(stage: Stage) -> None:
    answer = await stage.call("refused", "hello")
    assert (answer.error["code"], answer.error["retryable"]) == ("model_failed", True)


async def test_a_provider_whose_package_is_missing_is_told_at_the_start(stage: Stage) -> None:
    assert "needs a package that is not installed: boto3" in stage.worker.log.read_text("utf-8")
    assert (await stage.call("unpackaged", "hello")).error["code"] == "agent_failed"


async def test_an_agent_with_a_schema_of_its_own_takes_its_arguments_as_fast_agent_shows_them_to_the_model(
    stage: Stage, model: Model
) -> None:
    model.taken()
    async with stage.client("form") as client:
        [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == "form"]
        assert set(tool.input_schema["properties"]) == {"city", "history", "images", "conversation_id"}
        assert tool.input_schema["properties"]["history"] == {"type": "string"}
        await call_with(client, "form", {"history": "long", "city": "Köln", "conversation_id": "c"})
        assert (await client.call_tool("form", {"message": "hello"})).is_error
    [asked] = model.taken()
    assert asked["messages"][-1]["content"] == '{"city": "Köln", "history": "long"}'
    assert asked["model"] == "other"
    assert f"Workspace root: {stage.folder}\n" in asked["messages"][0]["content"]


def test_a_variable_that_is_not_set_and_a_key_that_is_given_twice_are_told_at_the_start(stage: Stage) -> None:
    log = stage.worker.log.read_text("utf-8")
    assert '"variable": "NOT_SET"' in log
    assert "cards/form.md:4:1: this key is given twice, first on line 3; fast-agent uses this one" in log


def test_the_settings_that_a_program_names_itself_are_forced_too(stage: Stage) -> None:
    assert "llm_retries is forced to 0" in stage.worker.log.read_text("utf-8")


def test_nothing_is_written_into_the_folder(stage: Stage) -> None:
    found = {str(path.relative_to(stage.folder)) for path in Path(stage.folder).rglob("*") if path.is_file()}
    assert found == {*FILES, "fastagent.config.yaml"}
