"""Two programs that use the HTTP API: `pallas pipelines`, and `constellation-mcp` in front of a replica."""

import json
from pathlib import Path
from typing import Any

from mcp import Client
from tests.integration.pallas_command import Pallas
from tests.integration.pipelines.api import ADD, ANSWERS, SUBTRACT, served
from tests.integration.pipelines.lab import Lab, chain
from tests.requirements import requirement

from constellation_mcp.configuration import Configuration
from constellation_mcp.server import ConstellationServer
from constellation_mcp.service import connect
from pallas_contracts.agents import JsonObject


async def double(arguments: JsonObject) -> Any:
    """Twice the number."""
    return {"number": arguments["number"] * 2}


async def test_the_command_line_checks_stores_and_runs(lab: Lab, tmp_path: Path) -> None:
    lab.counted.tool("double", double, answers=ANSWERS)
    program, other, faulty = (tmp_path / name for name in ("twice.cst", "less.cst", "faulty.cst"))
    program.write_text(chain(lab.counted.namespace, ["double", "double"]))
    other.write_text(SUBTRACT)
    faulty.write_text("in x: Int\ny = Foo(x)\nout y")
    async with served(lab) as api:
        name = api.user
        pallas = Pallas({"PALLAS_PIPELINES_URL": str(api.http.base_url)}, tmp_path)
        assert (await pallas.done("pipelines", "validate", "twice.cst")).out == "twice.cst: valid\n"
        assert (
            "faulty.cst:2:5: E002 Undefined function: Foo" in (await pallas("pipelines", "validate", "faulty.cst")).err
        )
        stored = await pallas.done("pipelines", "compile", "twice.cst", "--name", f"shared/{name}")
        assert f"shared/{name}" in stored.out
        assert "E002" in (await pallas("pipelines", "compile", "faulty.cst")).err
        ran = await pallas.done("pipelines", "run", "twice.cst", "--input", "x=3")
        assert ran.json == {"result": 12}
        assert f"{lab.counted.team}/{lab.counted.agent}/double: completed" in ran.err
        assert "modules executed: 2" in ran.err
        ran = await pallas.done("pipelines", "run", f"shared/{name}", "--input", "x=4")
        assert ran.json == {"result": 16}
        waiting = await pallas("pipelines", "run", "less.cst", "--input", "a=4")
        assert "these inputs are missing: b: CInt" in waiting.err
        shown = await pallas.done("pipelines", "show", f"shared/{name}")
        assert program.read_text() in shown.out
        assert (await pallas.done("pipelines", "show", f"shared/{name}", "--mermaid")).out.startswith("flowchart")
        refused = await pallas.refused("pipelines", "show", "none")
        assert refused == ["pallas: Pipeline 'none' not found"]


@requirement("C-met-2")
async def test_constellation_mcp_offers_the_service_to_a_model(lab: Lab) -> None:
    lab.counted.tool("double", double, answers=ANSWERS)
    async with served(lab) as api:
        configuration = Configuration.model_validate(
            {"constellation": {"baseUrl": str(api.http.base_url)}, "agent": {"id": "tests", "user": api.user}}
        )
        async with connect(configuration) as service, Client(ConstellationServer(service).server) as client:

            async def call(tool: str, *, fails: bool = False, **arguments: Any) -> Any:
                result = await client.call_tool(tool, arguments)
                assert result.is_error is fails, result
                return result.structured_content

            assert await call("validate", source=ADD) == {"valid": True, "warnings": []}
            compiled = await call("compile", source=ADD, name="sums")
            assert (compiled["storedAs"], compiled["structuralHash"][:7]) == (f"user:{api.user}/sums", "sha256:")
            found = await call("compile", source="out y", fails=True)
            assert found["errors"][0]["code"].startswith("E")
            ran = await call("execute", ref="sums", inputs={"a": 1, "b": 2})
            assert (ran["success"], ran["outputs"]) == (True, {"sum": 3})
            assert set(ran["metrics"]) == {"compileTimeMs", "executeTimeMs", "modulesExecuted"}
            source = chain(lab.counted.namespace, ["double"])
            assert (await call("execute", source=source, inputs={"x": 4}))["outputs"] == {"result": 8}
            name = f"{lab.counted.namespace}.double"
            assert [each["name"] for each in (await call("list_modules", tag=lab.counted.team))["modules"]] == [name]
            assert (await call("describe_module", name=name))["input"]["fields"] == {"number": "Int"}
            assert (await call("diff", left="sums", right=SUBTRACT))["same"] is False
            batch = await call("batch_execute", ref=compiled["structuralHash"], inputs=[{"a": 1, "b": 2}])
            assert batch["results"][0]["outputs"] == {"sum": 3}
            executions = (await call("history", limit=2))["executions"]
            assert [each["tool"] for each in executions] == ["batch_execute", "execute"]
            for uri in ("modules", "pipelines", "pipelines/sums", "executions", f"modules/{name}"):
                [content] = (await client.read_resource(f"constellation://{uri}")).contents
                json.loads(content.model_dump()["text"])
            for kind, begins in (("mmd", "flowchart"), ("svg", "<svg")):
                [content] = (await client.read_resource(f"constellation://pipelines/sums/dag.{kind}")).contents
                assert content.model_dump()["text"].startswith(begins)
        counted = (await api.get("/metrics"))["metrics"]["pallas_pipeline_requests_total"]
        assert {each["labels"]["client"][:6] for each in counted} == {"tests-"}
