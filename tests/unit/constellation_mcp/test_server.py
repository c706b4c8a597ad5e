"""Tools, resources, prompts and completions, as the official client sees them in front of a service that listens."""

import asyncio
import json
import re
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult, ResourceTemplateReference, TextContent, TextResourceContents
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from tests.requirements import requirement
from tests.unit.constellation_mcp.conftest import connected
from tests.unit.constellation_mcp.constellation import HASH, KEY, MODULES, Constellation
from tests.waiting import eventually

from constellation_mcp import tools
from constellation_mcp.configuration import Configuration
from constellation_mcp.engine_types import language_type
from constellation_mcp.server import ConstellationServer
from constellation_mcp.service import Bucket, connect
from pallas_cst import documents
from pallas_cst.prompts import MOST_MODULES
from pallas_runtime.http.bodies import disconnected

SOURCE = "in x: Int\nout x"
FAULTY = "in x: Int\ny = Foo(x)\nout y"
RFC: dict[str, tuple[dict[str, str], list[str]]] = {
    "validate": ({"source": "string"}, ["source"]),
    "compile": ({"source": "string", "name": "string"}, ["source"]),
    "execute": ({"source": "string", "ref": "string", "inputs": "object"}, ["inputs"]),
    "describe_module": ({"name": "string"}, ["name"]),
    "list_modules": ({"tag": "string", "search": "string"}, []),
}
OFFLINE = Configuration.model_validate({"constellation": {"baseUrl": "http://127.0.0.1:1", "apiKey": KEY}})


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    """The answer of a tool."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert json.loads(text_of(result)) == result.structured_content
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """What a tool says that fails."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)


async def read(client: Client, path: str) -> str:
    [content] = (await client.read_resource(f"constellation://{path}")).contents
    assert isinstance(content, TextResourceContents)
    return content.text


async def prompt_of(client: Client, name: str, **arguments: str) -> str:
    [message] = (await client.get_prompt(name, arguments)).messages
    assert isinstance(message.content, TextContent)
    return message.content.text


@requirement("C-tools-1")
async def test_the_tools_have_the_schemas_of_the_rfc(constellation: Constellation) -> None:
    async with connected(constellation.configuration()) as client:
        listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
    for name, (types, required) in RFC.items():
        schema = listed.pop(name)
        assert {each: about["type"] for each, about in schema["properties"].items()} == types
        assert schema.get("required", []) == required
    assert set(listed) == {"diff", "history", "resume", "batch_execute"}


@requirement("C-arch-4", "C-arch-5", "C-tools-2", "C-tools-3", "C-tools-4", "C-tools-5", "C-tools-6", "C-tools-7")
async def test_each_tool_is_a_request_with_both_headers_and_the_key(constellation: Constellation) -> None:
    async with connected(constellation.configuration()) as client:
        assert await called(client, "validate", source=SOURCE) == {"valid": True, "warnings": []}
        assert (await called(client, "validate", source=FAULTY))["errors"][0]["code"] == "E002"
        compiled = await called(client, "compile", source=SOURCE, name="orders")
        assert (compiled["structuralHash"], compiled["storedAs"]) == (f"sha256:{HASH}", "user:alice/orders")
        run = await called(client, "execute", source=SOURCE, inputs={"structuralHash": HASH})
        assert run["outputs"] == {"structuralHash": HASH}
        cold = await called(client, "execute", ref="user:alice/orders", inputs={"x": 1})
        assert (cold["outputs"], cold["executionId"], cold["metrics"]["modulesExecuted"]) == ({"x": 1}, "exec-1", 0)
        assert await called(client, "describe_module", name=MODULES[0]["name"]) == MODULES[0]
        assert (await called(client, "list_modules"))["modules"] == MODULES
        assert (await called(client, "diff", left="a", right="b"))["added"] == ["module:B"]
        assert (await called(client, "history", limit=5))["executions"][0]["structuralHash"] == f"sha256:{HASH}"
        assert len((await called(client, "batch_execute", ref="orders", inputs=[{}, {}]))["results"]) == 2
        assert (await called(client, "resume", executionId="exec-1", additionalInputs={"y": 2}))["outputs"] == {"y": 2}
    assert constellation.paths == [
        "POST /validate",
        "POST /validate",
        "POST /compile",
        "POST /run",
        "POST /execute",
        "GET /modules/data.crm.EnrichCustomer",
        "GET /modules",
        "POST /diff",
        "GET /history?limit=5",
        "POST /batch",
        "POST /executions/exec-1/resume",
    ]
    for _, _, _, headers in constellation.requests:
        assert headers["x-constellation-agent"] == "claude-code:alice@acme.com"
        assert re.fullmatch(r"mcp-req-[0-9a-f]{12}", headers["x-constellation-request-id"])
        assert headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("engine", "written"),
    [
        ("CString", "String"),
        ("CList(CInt)", "List<Int>"),
        ("CSeq(COptional(CJson))", "Seq<Optional<Json>>"),
        ("CMap(CString,CList(CInt))", "Map<String, List<Int>>"),
        ("CProduct(Map(a b -> CInt, c -> CProduct(Map())))", '{ "a b": Int, c: {  } }'),
        ("CUnion(Map({ a: Int } -> CProduct(Map(a -> CInt)), String -> CString))", "String | { a: Int }"),
        ("CFunction(CInt, CBoolean)", "(Int) => Boolean"),
        *((text, text) for text in ("Int", "CInt)", "CList(", "CThing(CInt)", "CList(" * 500 + "CInt" + ")" * 500, "")),
    ],
)
def test_types_are_written_as_in_programs(engine: str, written: str) -> None:
    assert language_type(engine) == written


async def test_types_of_the_service_can_be_copied_into_a_program(constellation: Constellation) -> None:
    types = {"inputs": {"x": "CInt"}, "outputs": {"y": "CList(CInt)"}}
    constellation.answers["/modules"] = JSONResponse({"modules": [{"name": "m", **types}]})
    constellation.answers["/pipelines/p"] = JSONResponse({"inputSchema": {"x": "CInt"}, "modules": [types]})
    suspended = {"success": True, "status": "suspended", "outputs": {"y": "CInt"}, "missingInputs": {"x": "CInt"}}
    constellation.answers["/run"] = JSONResponse(suspended)
    async with connected(constellation.configuration()) as client:
        [module] = (await called(client, "list_modules"))["modules"]
        assert (module["inputs"], module["outputs"]) == ({"x": "Int"}, {"y": "List<Int>"})
        assert "CInt" not in await read(client, "modules") + await read(client, "pipelines/p")
        ran = await called(client, "execute", source=SOURCE, inputs={})
        assert (ran["outputs"], ran["missingInputs"]) == ({"y": "CInt"}, {"x": "Int"})


class _Broken(Response):
    """An answer whose connection breaks behind its headers, or at `stays` not before its caller leaves."""

    def __init__(self, execution: str = "", stays: asyncio.Event | None = None) -> None:
        named = {"X-Constellation-Execution-ID": execution} if execution else {}
        super().__init__(headers={"content-length": "100", **named})
        self._stays = stays

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        if self._stays is not None:
            self._stays.set()
            await disconnected(receive)


async def test_an_execution_is_followed_by_its_id_when_the_connection_is_lost(constellation: Constellation) -> None:
    constellation.answers["/run"] = _Broken("exec-1")
    constellation.answers["/batch"] = _Broken()
    async with connected(constellation.configuration()) as client:
        ran = await called(client, "execute", source=SOURCE, inputs={})
        assert (ran["outputs"], ran["executionId"]) == ({"x": 1}, "exec-1")
        assert not {"tool", "attempts", "calls"} & ran.keys()
        assert "may be executed all the same" in await refused(client, "batch_execute", ref="orders", inputs=[{}])
    assert constellation.paths == [
        "POST /run",
        "GET /executions/exec-1/events",
        "GET /executions/exec-1",
        "POST /batch",
    ]
    keys = [headers.get("idempotency-key") for *_, headers in constellation.requests]
    assert (keys[0] != keys[3], keys[1:3]) == (True, [None, None])


async def test_an_execution_is_followed_while_a_proxy_has_no_service_behind_it(
    constellation: Constellation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("constellation_mcp.service._PAUSE", 0.01)
    constellation.answers["/run"] = _Broken("exec-1")
    events = "/executions/exec-1/events"
    constellation.answers[events] = Response(status_code=502)
    async with connect(constellation.configuration()) as service:
        task = asyncio.create_task(service.run("a:b", "/run", {}))
        await eventually(lambda: constellation.paths.count(f"GET {events}") > 1)
        del constellation.answers[events]
        assert (await task)["outputs"] == {"x": 1}


async def test_an_execution_that_nobody_waits_for_is_cancelled(constellation: Constellation) -> None:
    followed = asyncio.Event()
    constellation.answers["/run"] = _Broken("exec-1")
    constellation.answers["/executions/exec-1/events"] = _Broken(stays=followed)
    async with connect(constellation.configuration()) as service:
        task = asyncio.create_task(service.run("a:b", "/run", {}))
        await followed.wait()
        task.cancel()
        await asyncio.wait([task])
    assert constellation.paths == ["POST /run", "GET /executions/exec-1/events", "DELETE /executions/exec-1"]


async def test_without_an_id_the_agent_is_the_client_of_the_protocol(constellation: Constellation) -> None:
    configuration = constellation.configuration(agent={"user": "bob"})
    for mode in ("auto", "legacy"):
        async with connected(configuration, mode=mode) as client:
            await called(client, "validate", source=SOURCE)
    assert {headers["x-constellation-agent"] for _, _, _, headers in constellation.requests} == {"mcp:bob"}


async def test_a_program_that_fails_is_an_error_that_says_where(constellation: Constellation) -> None:
    async with connected(constellation.configuration()) as client:
        failed = await client.call_tool("compile", {"source": FAULTY})
        assert failed.is_error
        assert failed.structured_content == {
            "success": False,
            "errors": [{"line": 2, "column": 5, "code": "E002", "message": "Undefined function: Foo"}],
        }
        assert "division by zero" in await refused(client, "execute", ref="fails", inputs={})
        assert "Pipeline 'nothing' not found" in await refused(client, "execute", ref="nothing", inputs={})
        assert "list_modules" in await refused(client, "describe_module", name="Nope")


@requirement("C-tools-8")
async def test_modules_are_found_by_tag_and_by_text(constellation: Constellation) -> None:
    async with connected(constellation.configuration()) as client:
        assert (await called(client, "list_modules", tag="crm"))["modules"] == MODULES[:1]
        assert (await called(client, "list_modules", search="CAPITAL"))["modules"] == MODULES[1:]
        assert (await called(client, "list_modules", tag="crm", search="capital"))["modules"] == []


@requirement("C-sec-2")
@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("validate", {}, "'source' is a required property"),
        ("validate", {"source": 1}, "source: 1 is not of type 'string'"),
        ("validate", {"source": SOURCE, "strict": True}, "no argument strict"),
        ("validate", {"source": "x" * 50_001}, "50,001 characters; 50,000 are allowed"),
        ("execute", {"inputs": {}}, "either source or ref"),
        ("execute", {"inputs": {}, "source": SOURCE, "ref": "a"}, "either source or ref"),
        ("batch_execute", {"inputs": [], "ref": "a"}, "inputs: "),
        ("describe_module", {"name": ".."}, "there is no module '..'"),
    ],
)
async def test_what_does_not_fit_is_not_sent(
    constellation: Constellation, tool: str, arguments: dict[str, Any], why: str
) -> None:
    async with connected(constellation.configuration()) as client:
        assert why in await refused(client, tool, **arguments)
    assert constellation.requests == []


async def test_what_is_not_allowed_is_not_listed_and_is_refused(constellation: Constellation) -> None:
    features = {"allowExecution": False, "allowColdStorage": False, "maxSourceLength": 5}
    async with connected(constellation.configuration(features=features)) as client:
        listed = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
        assert {"execute", "batch_execute"}.isdisjoint(listed)
        assert set(listed["compile"]) == {"source"}
        assert "no argument name" in await refused(client, "compile", source="out x", name="a")
        assert "6 characters; 5 are allowed" in await refused(client, "diff", left="a", right="123456")
        with pytest.raises(MCPError, match="Unknown tool: execute"):
            await client.call_tool("execute", {"inputs": {}})


@requirement("C-res-1", "C-res-2", "C-res-3")
async def test_documents_are_resources(constellation: Constellation) -> None:
    async with connected(constellation.configuration()) as client:
        listed = [resource.uri for resource in (await client.list_resources()).resources]
        for name in ("language-reference", "module-options", "type-system", "examples/greeting", "errors/E010"):
            assert f"constellation://docs/{name}" in listed
            assert await read(client, f"docs/{name}") == documents.read(name)
        found = await client.read_resource("constellation://docs/type-system")
        assert (found.ttl_ms, found.cache_scope) == (3_600_000, "public")
        templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
    assert set(templates) >= {
        "constellation://docs/examples/{name}",
        "constellation://docs/errors/{code}",
        "constellation://modules/{name}",
        "constellation://pipelines/{ref}",
    }
    assert constellation.requests == []


@requirement("C-res-6", "C-res-7", "C-res-8", "C-res-9", "C-res-10")
async def test_what_the_service_has_is_read_once_in_a_while(constellation: Constellation) -> None:
    async with connected(constellation.configuration(), cache=None) as client:
        for _ in range(3):
            assert json.loads(await read(client, "modules")) == {"modules": MODULES}
        assert (await called(client, "list_modules"))["modules"] == MODULES
        assert json.loads(await read(client, "modules/data.text.Uppercase"))["version"] == "1.0"
        for ref in ("user:alice/orders", "user%3Aalice%2Forders"):
            assert json.loads(await read(client, f"pipelines/{ref}"))["structuralHash"] == f"sha256:{HASH}"
            assert await read(client, f"pipelines/{ref}/dag.mmd") == "flowchart TD\n"
        assert json.loads(await read(client, "executions"))["executions"][0]["executionId"] == "exec-1"
        for _ in range(2):
            await read(client, "pipelines")
            await called(client, "compile", source=SOURCE, name="new")
    assert constellation.paths == [
        "GET /modules",
        "GET /modules/data.text.Uppercase",
        "GET /pipelines/user%3Aalice%2Forders",
        "GET /pipelines/user%3Aalice%2Forders/dag.mmd",
        "GET /history",
        *("GET /pipelines", "POST /compile") * 2,
    ]


async def test_without_a_time_to_keep_them_resources_are_read_anew(constellation: Constellation) -> None:
    async with connected(constellation.configuration(cache={"moduleTtlSeconds": 0}), cache=None) as client:
        for _ in range(2):
            await read(client, "modules")
    assert constellation.paths == ["GET /modules"] * 2


@pytest.mark.parametrize(
    "uri",
    ["docs/nothing", "docs/../__init__", "modules/Nope", "pipelines/none", "pipelines/..", "else", "executions/x"],
)
async def test_an_unknown_resource_is_said_to_be_unknown(constellation: Constellation, uri: str) -> None:
    async with connected(constellation.configuration()) as client:
        with pytest.raises(MCPError, match="Unknown resource"):
            await read(client, uri)


@requirement("C-prompts-1", "C-prompts-2")
async def test_the_prompt_to_write_has_the_language_the_live_modules_and_examples(constellation: Constellation) -> None:
    async with connected(constellation.configuration()) as client:
        text = await prompt_of(client, "write_pipeline", goal="Greet ```customers```", available_inputs="name: String")
        with pytest.raises(MCPError, match="needs goal"):
            await prompt_of(client, "write_pipeline")
    assert "````\nGreet ```customers```\n````" in text
    assert "name: String" in text
    assert documents.read("language-reference") in text
    assert documents.read("examples/call-modules") in text
    assert "- `data.crm.EnrichCustomer`: Adds what the CRM knows" in text
    assert "`validate`" in text


async def test_of_many_modules_there_are_names_by_namespace(constellation: Constellation) -> None:
    modules = [{"name": f"data.many.M{number}"} for number in range(MOST_MODULES + 1)]
    constellation.answers["/modules"] = JSONResponse({"modules": modules})
    async with connected(constellation.configuration()) as client:
        text = await prompt_of(client, "write_pipeline", goal="x")
    assert "- `data.many`: M0, M1, " in text
    assert f"M19 and {MOST_MODULES + 1 - 20} more" in text
    assert "list_modules" in text


@requirement("C-prompts-3")
async def test_the_prompt_to_mend_has_the_pages_of_the_codes(constellation: Constellation) -> None:
    async with connected(constellation.configuration()) as client:
        text = await prompt_of(client, "debug_pipeline", source=FAULTY, error="[E002] Undefined function, E002, E999")
        other = await prompt_of(client, "debug_pipeline", source=FAULTY, error="it does not work")
    assert text.count(documents.read("errors/E002")) == 1
    assert "Common mistakes" in text
    assert FAULTY in text
    assert "`validate`" in text
    assert documents.title("errors/E010") in other


async def test_names_refs_and_codes_are_completed(constellation: Constellation) -> None:
    async def completed(client: Client, template: str, given: str) -> list[str]:
        ref = ResourceTemplateReference(uri=f"constellation://{template}")
        return (await client.complete(ref, {"name": "name", "value": given})).completion.values

    async with connected(constellation.configuration()) as client:
        assert await completed(client, "modules/{name}", "upper") == ["data.text.Uppercase"]
        assert await completed(client, "pipelines/{ref}", "user:") == ["user:alice/orders"]
        assert await completed(client, "docs/errors/{code}", "e01") == [
            code for code in documents.errors() if code.startswith("E01")
        ]
        assert await completed(client, "docs/examples/{name}", "gree") == ["greeting"]
        assert await completed(client, "elsewhere/{name}", "") == []
    async with connected(OFFLINE) as client:
        assert await completed(client, "modules/{name}", "") == []


@requirement("C-arch-3")
@pytest.mark.parametrize("configuration", [OFFLINE, Configuration()], ids=["unreachable", "no service"])
async def test_without_a_service_documents_and_syntax_are_there(configuration: Configuration) -> None:
    async with connected(configuration) as client:
        assert await read(client, "docs/type-system") == documents.read("type-system")
        answer = await called(client, "validate", source=SOURCE)
        assert answer["valid"]
        assert "only the syntax was checked" in answer["warnings"][0]["message"]
        [error] = (await called(client, "validate", source="in x: Int\nout"))["errors"]
        assert (error["line"], error["column"], error["code"]) == (2, 4, "E020")
        assert "E002" in await prompt_of(client, "debug_pipeline", source=SOURCE, error="E002")
        assert "could not be listed" in await prompt_of(client, "write_pipeline", goal="x")
        for message in (
            await refused(client, "compile", source=SOURCE),
            await refused(client, "execute", source=SOURCE, inputs={}),
            await refused(client, "list_modules"),
        ):
            assert re.search("cannot be reached|set CONSTELLATION_URL", message)
            assert "127.0.0.1" not in message
        with pytest.raises(MCPError, match=r"cannot be reached|set CONSTELLATION_URL"):
            await read(client, "modules")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (JSONResponse({"error": "Unauthorized"}, 401), "answered 401: the API key is missing or is not accepted"),
        (JSONResponse({"message": "scope"}, 403), "answered 403: scope"),
        (Response(status_code=429, headers={"retry-after": "7"}), "answered 429: too many requests; try again in 7 s"),
        (Response("<html>", 502), "answered 502 (mcp-req-"),
        (Response(status_code=302, headers={"location": "http://127.0.0.1:1/"}), "answered 302"),
        (Response("<html>"), "something else than was asked for"),
        (Response('{"modules": [{"name": "\\ud800"}]}'), "something else than was asked for"),
        (JSONResponse({"modules": 1}), "something else than was asked for"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_errors_of_the_service_are_explained(constellation: Constellation, answer: Response, why: str) -> None:
    constellation.answers["/modules"] = answer
    async with connected(constellation.configuration()) as client:
        assert why in await refused(client, "list_modules")


@requirement("C-sec-4")
async def test_errors_show_neither_the_address_nor_the_key(constellation: Constellation) -> None:
    said = f"{KEY} is not known at {constellation.url}/modules ({constellation.url[7:]})"
    constellation.answers["/modules"] = JSONResponse({"message": said}, 403)
    async with connected(constellation.configuration()) as client:
        message = await refused(client, "list_modules")
    assert "… is not known at …/modules (…)" in message


@requirement("C-sec-3")
async def test_too_many_requests_are_not_sent(constellation: Constellation) -> None:
    async with connect(constellation.configuration()) as service:
        service.bucket = Bucket(per_minute=1, burst=2)
        async with Client(ConstellationServer(service).server) as client:
            for _ in range(2):
                await called(client, "validate", source=SOURCE)
            assert "too many requests from this program; try again in" in await refused(client, "list_modules")
    assert len(constellation.requests) == 2


def test_a_bucket_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    bucket = Bucket(per_minute=60, burst=2)
    assert [bucket.take(), bucket.take(), bucket.take()] == [0, 0, 1.0]
    now += 1.5
    assert [bucket.take(), bucket.take()] == [0, 0.5]


def test_hashes_get_their_prefix_but_values_stay() -> None:
    given = {"structuralHash": HASH, "list": [{"structuralHash": "x"}], "inputs": {"structuralHash": HASH}}
    assert tools.with_prefix(given) == {**given, "structuralHash": f"sha256:{HASH}"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_json_cannot_write_is_refused(value: object) -> None:
    execute = next(tool for tool in tools.TOOLS if tool.name == "execute")
    with pytest.raises(tools.Refused, match="cannot write"):
        execute.check({"inputs": {"x": value}, "ref": "a"}, 10)
