"""The agents of pipelines as callers see them: stored and published pipelines, resources, prompts, completions."""

import json
import uuid
from typing import Any
from urllib.parse import quote

import pytest
from mcp_types import (
    ElicitRequestFormParams,
    ElicitResult,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)
from tests.conftest import Connecting
from tests.integration.pipelines.lab import ALICE, BOB, NUMBER, Lab, Replica
from tests.integration.real_parts import a_gateway, until
from tests.requirements import requirement

from pallas_bus import kv
from pallas_bus.ask import ask
from pallas_bus.streams import declare
from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.catalog import (
    AGENTS,
    CONSTELLATION,
    HEALTH,
    MONITOR,
    PIPELINES_TEAM,
    PUBLISHED,
    READ_AGENT,
)
from pallas_contracts.errors import Denied, NotFound
from pallas_contracts.health import AgentHealth, HealthStatus
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal
from pallas_cst import documents

DOUBLE = "in x: Int\ny = x * 2\nout y"


async def add_one(arguments: JsonObject) -> JsonObject:
    return {"number": arguments["number"] + 1}


@pytest.fixture
async def replica(lab: Lab) -> Replica:
    """A replica, which knows an agent with the tool `add`."""
    lab.counted.tool("add", add_one, answers=NUMBER)
    await lab.host()
    replica = await lab.replica()
    await lab.known(replica)
    return replica


def fresh(name: str) -> str:
    """A name that no other test has."""
    return f"{name}_{uuid.uuid4().hex[:8]}"


async def asked(lab: Lab, method: Any, params: JsonObject, principal: Principal = ALICE) -> JsonObject:
    """What the agent answers to a read."""
    question = AgentRead(team=PIPELINES_TEAM, agent=CONSTELLATION, method=method, params=params, principal=principal)
    return (await ask(lab.bus, READ_AGENT, question, team=PIPELINES_TEAM, agent=CONSTELLATION)).result


async def read(lab: Lab, address: str, principal: Principal = ALICE) -> str:
    """The text of a resource."""
    [content] = (await asked(lab, "resources/read", {"uri": f"constellation://{address}"}, principal))["contents"]
    return content["text"]


async def unread(lab: Lab, address: str, principal: Principal = ALICE) -> str:
    """Why a resource cannot be read."""
    with pytest.raises(NotFound) as error:
        await read(lab, address, principal)
    return error.value.message


async def completed(lab: Lab, reference: JsonObject, argument: str, typed: str, who: Principal = ALICE) -> list[str]:
    """Completions."""
    params = {"ref": reference, "argument": {"name": argument, "value": typed}}
    return (await asked(lab, "completion/complete", params, who))["completion"]["values"]


@requirement("C-tools-3", "C-tools-4", "C-tools-6", "C-sec-5")
async def test_a_program_is_kept_by_its_hash_and_stored_by_its_name_for_its_owner(lab: Lab, replica: Replica) -> None:
    name = fresh("double")
    compiled = await lab.call("compile", {"source": DOUBLE})
    assert compiled["dag"] == {"nodes": ["input:x", "output:y"], "edges": [["input:x", "output:y"]]}
    assert (compiled["inputs"], compiled["outputs"]) == ({"x": "Int"}, {"y": "Int"})
    reference = compiled["structuralHash"]
    assert (await lab.call("execute", {"ref": reference, "inputs": {"x": 4}}))["outputs"] == {"y": 8}
    secret = f'{DOUBLE}\nkey = "sk-{"a1" * 20}"\nout key'
    stored = await lab.call("compile", {"source": secret, "name": name})
    assert (stored["storedAs"], stored["version"]) == (f"user:alice/{name}", 1)
    assert [warning["line"] for warning in stored["warnings"]] == [4]
    again = await lab.call("compile", {"source": DOUBLE, "name": name})
    assert (again["version"], again["structuralHash"]) == (2, reference)
    assert (await lab.call("execute", {"ref": name, "inputs": {"x": 5}}))["outputs"] == {"y": 10}
    listed = (await lab.call("list_pipelines", {"namespace": "user:alice"}))["pipelines"]
    [mine] = [each for each in listed if each["name"] == f"user:alice/{name}"]
    assert (mine["inputs"], mine["outputs"], mine["version"]) == ({"x": "Int"}, {"y": "Int"}, 2)
    differs = await lab.call("diff", {"left": name, "right": secret})
    assert (differs["same"], differs["outputs"]["added"]) == (False, {"key": "String"})
    assert (await lab.call("diff", {"left": name, "right": DOUBLE}))["same"] is True

    for tool in ("execute", "delete_pipeline", "unpublish", "diff"):
        texts = list[str]()
        for ref in (f"user:alice/{name}", f"user:alice/{name[::-1]}"):
            given: JsonObject = {"left": ref, "right": ref} if tool == "diff" else {"ref": ref}
            given |= {"inputs": {"x": 1}} if tool == "execute" else {}
            texts.append((await lab.fails(tool, given, BOB))[1].replace(ref, "REF"))
        assert texts[0] == texts[1], tool
    assert "not found" in (await lab.fails("execute", {"ref": reference, "inputs": {"x": 4}}, BOB))[1]
    assert await lab.call("delete_pipeline", {"ref": name}) == {"deleted": True}
    assert "not found" in (await lab.fails("execute", {"ref": name, "inputs": {"x": 4}}))[1]


async def test_a_module_that_cannot_be_called_now_says_so(lab: Lab, replica: Replica, bus: Connecting) -> None:
    monitor, name = await bus(MONITOR), f"{lab.counted.namespace}.add"
    await declare(monitor, HEALTH)
    source = f"in x: Int\ny = {name}(x)\nz = {name}(x)\nout y\nout z"
    warning = {"line": 2, "column": 5, "message": f"{name} cannot be called now: gone"}
    wanted: list[tuple[HealthStatus, list[JsonObject]]] = [("error", [warning]), ("degraded", [])]
    for status, warnings in wanted:
        team, agent = lab.counted.team, lab.counted.agent
        health = AgentHealth(team=team, agent=agent, status=status, message="gone", interval=30.0, at=utc_now())
        await kv.put(monitor, HEALTH, health, team=team, agent=agent)

        async def warned(warnings: list[JsonObject] = warnings) -> bool:
            return await lab.call("validate", {"source": source}) == {"valid": True, "warnings": warnings}

        await until(warned)
        described = await lab.call("describe_module", {"name": name})
        assert described.get("unavailable") == ("gone" if warnings else None)


async def test_a_program_with_faults_is_answered_with_the_first(lab: Lab, replica: Replica) -> None:
    code, text = await lab.fails("compile", {"source": "in x: Int\ny = Nope(x)\nout y", "name": fresh("bad")})
    assert code is None
    [fault] = json.loads(text)["errors"]
    assert (fault["line"], fault["column"], fault["code"]) == (2, 5, "E002")


@requirement("C-sec-1")
async def test_each_scope_allows_what_it_says(lab: Lab) -> None:
    await lab.replica(pipeline_read="user", pipeline_execute="team:runners", pipeline_write="token")
    runner, writer = Principal(type="team", id="runners"), Principal(type="token", id="w")
    assert (await lab.call("validate", {"source": DOUBLE}))["valid"] is True
    run = {"source": DOUBLE, "inputs": {"x": 1}}
    assert (await lab.call("execute", run, runner))["outputs"] == {"y": 2}
    assert "needs the scope `execute`; the caller has the scope `read`" in (await lab.fails("execute", run))[1]
    store = {"source": DOUBLE, "name": fresh("kept")}
    assert (await lab.call("compile", store, writer))["success"] is True
    for tool, given in (("compile", store), ("publish", {"ref": "x", "name": "x"})):
        assert "needs the scope `write`" in (await lab.fails(tool, given, runner))[1]
    stranger = Principal(type="team", id="t")
    assert "needs the scope `read`" in (await lab.fails("list_modules", {}, stranger))[1]
    with pytest.raises(Denied):
        await read(lab, "modules", stranger)


@requirement("C-pub-1")
async def test_a_published_pipeline_is_a_tool_and_a_module(lab: Lab, replica: Replica) -> None:
    name, tool = fresh("next"), fresh("next_of")
    source = f"in x: Int\ny = {lab.counted.namespace}.add(x).number\nout y"
    await lab.call("compile", {"source": source, "name": name})
    published = await lab.call("publish", {"ref": name, "name": tool, "description": "The next number"})
    assert published["module"] == f"pipelines.published.{tool}"

    async def tools() -> dict[str, JsonObject]:
        definition = await kv.get(lab.bus, AGENTS, team=PIPELINES_TEAM, agent=PUBLISHED)
        return {each.name: each.input_schema for each in definition.tools} if definition is not None else {}

    assert (await tools())[tool]["properties"] == {"x": {"type": "integer"}}
    called = lab.request(tool, {"x": 1}, BOB).model_copy(update={"agent": PUBLISHED})
    followed = await lab.submit(called)
    assert (await followed.outcome()).status == "completed"
    assert json.loads(followed.text) == {"y": 2}

    caller = f"in x: Int\ny = pipelines.published.{tool}(x).y\nout y"

    async def knows_the_module() -> bool:
        return (await lab.call("validate", {"source": caller}, BOB))["valid"]

    await until(knows_the_module)
    assert (await lab.call("execute", {"source": caller, "inputs": {"x": 2}}, BOB))["outputs"] == {"y": 3}
    _, text = await lab.fails("compile", {"source": caller, "name": name})
    [fault] = json.loads(text)["errors"]
    assert (fault["code"], fault["message"][:40]) == ("E031", "published pipelines call each other in a")
    compiled = await lab.call("compile", {"source": source})
    published_hash = compiled["structuralHash"]
    assert "source" not in json.loads(await read(lab, f"pipelines/{published_hash}", BOB))
    ran = await lab.call("execute", {"ref": published_hash, "inputs": {"x": 2}}, BOB)
    for hidden in (f"pipelines/{published_hash}/dag.mmd", f"executions/{ran['executionId']}/dag.svg"):
        assert "not found" in await unread(lab, hidden, BOB)
    assert await lab.call("unpublish", {"ref": name}) == {"name": f"user:alice/{name}"}
    assert tool not in await tools()


@requirement("C-pub-2")
async def test_a_pipeline_is_broken_when_a_module_has_changed(lab: Lab, replica: Replica) -> None:
    name = fresh("next")
    source = f"in x: Int\ny = {lab.counted.namespace}.add(x).number\nout y"
    await lab.call("compile", {"source": source, "name": name})
    [tool] = lab.counted.definition().tools
    changed = tool.model_copy(update={"output_schema": {"type": "object", "properties": {"sum": {"type": "integer"}}}})
    await lab.publish(lab.counted.definition().model_copy(update={"tools": (changed,), "revision": "2"}))

    async def is_broken() -> bool:
        return "E015" in json.loads(await read(lab, f"pipelines/{name}")).get("broken", "")

    await until(is_broken)


@requirement("C-res-1", "C-res-6", "C-res-7", "C-res-8", "C-res-9", "C-sec-5")
async def test_resources_are_documents_and_what_there_is_for_the_caller(lab: Lab, replica: Replica) -> None:
    name = fresh("next")
    source = f"in x: Int\ny = {lab.counted.namespace}.add(x).number\nout y"
    await lab.call("compile", {"source": source, "name": name})
    execution = (await lab.call("execute", {"ref": name, "inputs": {"x": 1}}))["executionId"]

    for document in documents.names():
        assert await read(lab, f"docs/{document}") == documents.read(document)
    module = f"{lab.counted.namespace}.add"
    assert module in {each["name"] for each in json.loads(await read(lab, "modules"))["modules"]}
    assert json.loads(await read(lab, f"modules/{module}"))["output"]["fields"] == {"number": "Int"}
    full = f"user:alice/{name}"
    assert full in {each["name"] for each in json.loads(await read(lab, "pipelines"))["pipelines"]}
    for written in (full, quote(full, safe=""), quote(full, safe="/"), name):
        found = json.loads(await read(lab, f"pipelines/{written}"))
        assert (found["inputs"], found["outputs"], found["source"]) == ({"x": "Int"}, {"y": "Int"}, source)
        assert (await read(lab, f"pipelines/{written}/dag.mmd")).startswith("flowchart LR")
        assert (await read(lab, f"pipelines/{written}/dag.svg")).startswith("<svg")
    assert execution in {each["executionId"] for each in json.loads(await read(lab, "executions"))["executions"]}
    ran = json.loads(await read(lab, f"executions/{execution}"))
    assert [(call["place"], call["tool"], call["status"]) for call in ran["calls"]] == [("1", "add", "completed")]
    picture = await read(lab, f"executions/{execution}/dag.svg")
    assert (picture.count('<g class="module done">'), picture.count('<g class="module')) == (1, 1)

    for address, missing in (
        (f"pipelines/{full}", f"pipelines/user:alice/{name[::-1]}"),
        (f"pipelines/{full}/dag.svg", f"pipelines/user:alice/{name[::-1]}/dag.svg"),
        (f"executions/{execution}", f"executions/{execution[::-1]}"),
        (f"executions/{execution}/dag.svg", f"executions/{execution[::-1]}/dag.svg"),
    ):
        foreign, unknown = await unread(lab, address, BOB), await unread(lab, missing, BOB)
        assert foreign.replace(name, "").replace(execution, "") == (
            unknown.replace(name[::-1], "").replace(execution[::-1], "")
        )
    for unknown in ("docs/nope", "docs/errors/E999", "docs/examples/nope", "modules/nope", "nope"):
        assert await unread(lab, unknown)


async def test_an_execution_that_waits_for_inputs_says_so(lab: Lab, replica: Replica) -> None:
    source = "in x: Int\nin z: Int\ny = x + 1\nw = z + 1\nout y\nout w"
    execution = (await lab.run(source, x=1))["executionId"]
    found = json.loads(await read(lab, f"executions/{execution}"))
    assert (found["status"], found["missingInputs"], found["pendingOutputs"]) == ("suspended", {"z": "Int"}, ["w"])
    page = await lab.call("history", {"limit": 1})
    assert [(each["executionId"], each["status"]) for each in page["executions"]] == [(execution, "suspended")]
    assert (await lab.call("history", {"limit": 1, "cursor": page["cursor"]}))["executions"] != page["executions"]


@requirement("C-prompts-1", "C-prompts-2", "C-prompts-3")
async def test_prompts_and_completions_know_what_the_caller_may_use(lab: Lab, replica: Replica) -> None:
    name = fresh("Kept")
    await lab.call("compile", {"source": DOUBLE, "name": name})
    got = await asked(lab, "prompts/get", {"name": "write_pipeline", "arguments": {"goal": "Add numbers"}})
    text = got["messages"][0]["content"]["text"]
    assert all(part in text for part in ("Add numbers", f"{lab.counted.namespace}.add", "`validate`"))
    assert documents.read("language-reference") in text
    given = {"source": DOUBLE, "error": "E010 at line 2"}
    got = await asked(lab, "prompts/get", {"name": "debug_pipeline", "arguments": given})
    assert documents.read("errors/E010") in got["messages"][0]["content"]["text"]

    def of(template: str) -> JsonObject:
        return {"type": "ref/resource", "uri": f"constellation://{template}"}

    module = f"{lab.counted.namespace}.add"
    assert await completed(lab, of("docs/errors/{code}"), "code", "e01") == [
        code for code in documents.errors() if code.startswith("E01")
    ]
    assert "order-total" in await completed(lab, of("docs/examples/{name}"), "name", "TOTAL")
    assert await completed(lab, of("modules/{name}"), "name", module) == [module]
    for template in ("pipelines/{ref}", "pipelines/{ref}/dag.svg"):
        assert await completed(lab, of(template), "ref", name.lower()) == [f"user:alice/{name}"]
        assert await completed(lab, of(template), "ref", name.lower(), BOB) == []
    assert await completed(lab, {"type": "ref/prompt", "name": "debug_pipeline"}, "error", "E031") == ["E031"]


@requirement("C-tools-1")
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_official_client_uses_both_agents_through_a_gateway(lab: Lab, replica: Replica, era: Any) -> None:
    name, tool = fresh("next"), fresh("next_of")
    asked_for = list[str]()

    async def answer(_: object, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        asked_for.extend(params.requested_schema["properties"])
        return ElicitResult(action="accept", content={"x": 41})

    front = await lab.stack.enter_async_context(a_gateway(lab.nats_url))
    await front.serves(PIPELINES_TEAM, CONSTELLATION)
    await front.serves(PIPELINES_TEAM, PUBLISHED)
    async with (
        front.client(PIPELINES_TEAM, CONSTELLATION, era, elicitation_callback=answer) as client,
        front.client(PIPELINES_TEAM, PUBLISHED, era) as published,
    ):
        offered = {each.name: each for each in (await client.list_tools()).tools}
        assert all(each.output_schema and each.annotations for key, each in offered.items() if key != "get_health")
        schemas = {key: each.input_schema for key, each in offered.items()}
        required = {key: schemas[key].get("required", []) for key in ("validate", "compile", "execute", "list_modules")}
        assert required == {"validate": ["source"], "compile": ["source"], "execute": ["inputs"], "list_modules": []}
        assert {"source", "ref", "inputs"} <= schemas["execute"]["properties"].keys()
        assert {"tag", "search"} == schemas["list_modules"]["properties"].keys()
        source = f"in x: Int\ny = {lab.counted.namespace}.add(x).number\nout y"
        stored = await client.call_tool("compile", {"source": source, "name": name})
        assert stored.structured_content is not None
        assert stored.structured_content["storedAs"].endswith(f"/{name}")
        told = list[str]()

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            told.append(message or "")

        ran = await client.call_tool("execute", {"ref": name, "inputs": {"x": 1}}, progress_callback=progress)
        assert (ran.structured_content or {})["outputs"] == {"y": 2}
        called = f"{lab.counted.team}/{lab.counted.agent}/add"
        assert [message for message in told if called in message] == [f"{called}: started", f"{called}: completed"]

        ran = await client.call_tool("execute", {"ref": name, "inputs": {}, "on_missing": "ask"})
        if era == "auto":
            assert ((ran.structured_content or {})["outputs"], asked_for) == ({"y": 42}, ["x"])

        [picture] = (await client.read_resource(f"constellation://pipelines/{name}/dag.svg")).contents
        assert isinstance(picture, TextResourceContents)
        assert (picture.mime_type, picture.text[:4]) == ("image/svg+xml", "<svg")
        templates = {each.uri_template for each in (await client.list_resource_templates()).resource_templates}
        assert {"constellation://pipelines/{ref}", "constellation://modules/{name}"} <= templates
        [message] = (await client.get_prompt("write_pipeline", {"goal": "Count"})).messages
        assert isinstance(message.content, TextContent)
        assert f"{lab.counted.namespace}.add" in message.content.text
        template = ResourceTemplateReference(uri="constellation://docs/errors/{code}")
        assert (await client.complete(template, {"name": "code", "value": "E031"})).completion.values == ["E031"]

        await client.call_tool("publish", {"ref": name, "name": tool})

        async def listed() -> bool:
            return tool in {each.name for each in (await published.list_tools()).tools}

        await until(listed)
        assert (await published.call_tool(tool, {"x": 6})).structured_content == {"y": 7}
