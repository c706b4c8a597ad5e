"""The routes of the engine's HTTP API (`http-api-contract.md`), with what RFC-018 and Pallas add."""

import asyncio
from typing import Any

import httpx
from tests.integration.pipelines.api import ADD, ANSWERS, SUBTRACT, served
from tests.integration.pipelines.lab import Lab, chain
from tests.integration.real_parts import until
from tests.requirements import requirement

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import Principal
from pallas_cst.signatures import function_from

FAULTY = "in x: Int\ny = Foo(x)\nout y"


async def double(arguments: JsonObject) -> Any:
    """Twice the number."""
    return {"number": arguments["number"] * 2}


@requirement("C-http-2")
async def test_programs_are_checked_and_executed(lab: Lab) -> None:
    called, goes_on = asyncio.Event(), asyncio.Event()

    async def wait(arguments: JsonObject) -> Any:
        called.set()
        await goes_on.wait()
        return arguments

    async def fail(arguments: JsonObject) -> Any:
        raise Rejected("this number is not liked")

    lab.counted.tool("double", double, answers=ANSWERS, annotations={"readOnlyHint": True})
    lab.counted.tool("wait", wait, answers=ANSWERS)
    lab.counted.tool("fail", fail, answers=ANSWERS)
    space = lab.counted.namespace
    async with served(lab) as api:
        assert await api.post("/validate", {"source": ADD}) == {"valid": True, "warnings": []}
        found = await api.post("/validate", {"source": FAULTY})
        assert found["errors"] == [{"line": 2, "column": 5, "code": "E002", "message": "Undefined function: Foo"}]
        assert (await api.post("/validate?syntax=only", {"source": FAULTY}))["valid"]

        compiled = await api.post("/compile", {"source": ADD})
        assert (compiled["dagName"], compiled["name"], compiled["errors"]) == ("unnamed", None, [])
        assert (compiled["inputs"], compiled["outputs"]) == ({"a": "Int", "b": "Int"}, {"sum": "Int"})
        assert len(compiled["structuralHash"]) == len(compiled["syntacticHash"]) == 64
        assert ["input:a", "module:stdlib.math.add"] in compiled["dag"]["edges"]
        found = await api.post("/compile", {"source": FAULTY}, 400)
        assert (found["success"], found["errors"], found["diagnostics"][0]["line"]) == (
            False,
            ["Undefined function: Foo"],
            2,
        )

        ran = await api.post("/run", {"source": ADD, "inputs": {"a": 1, "b": 2}})
        metrics, execution = ran.pop("metrics"), ran.pop("executionId")
        assert ran == {
            "success": True,
            "outputs": {"sum": 3},
            "structuralHash": compiled["structuralHash"],
            "compilationErrors": [],
            "error": None,
            "status": "completed",
            "missingInputs": None,
            "pendingOutputs": None,
            "resumptionCount": 0,
        }
        assert set(metrics) == {"compileTimeMs", "executeTimeMs", "modulesExecuted"}
        reference = {"ref": f"sha256:{compiled['structuralHash']}", "inputs": {"a": 2, "b": 2}}
        assert (await api.post("/execute", reference))["outputs"] == {"sum": 4}
        found = await api.post("/execute", {"ref": compiled["structuralHash"], "inputs": {}}, 404)  # bare: a name
        assert found == {"error": "NotFound", "message": f"Pipeline '{compiled['structuralHash']}' not found"}
        found = await api.post("/run", {"source": FAULTY, "inputs": {"x": 1}}, 400)
        assert (found["success"], found["compilationErrors"]) == (False, ["Undefined function: Foo"])
        found = await api.post("/run", {"source": ADD, "inputs": {"a": "one", "b": 2}}, 400)
        assert found["success"] is False
        assert found["error"].startswith("Input error: a: ")
        failed = await api.post("/run", {"source": chain(space, ["fail"]), "inputs": {"x": 1}})
        assert (failed["success"], failed["status"], failed["outputs"]) == (False, "failed", {})
        assert failed["error"].startswith("Line 3, column 6: ")
        kept = await api.get(f"/executions/{failed['executionId']}")
        assert (kept["success"], kept["error"]) == (False, failed["error"])
        batch = await api.post("/batch", {"source": ADD, "inputs": [{"a": 1, "b": 1}, {"a": 1}], "concurrency": 2})
        assert [each["success"] for each in batch["results"]] == [True, False]

        invoked = await api.post(f"/modules/{space}.double/invoke", {"number": 4})
        module = f"{space}.double"
        assert invoked == {"success": True, "outputs": {"number": 8}, "error": None, "module": module}
        assert (await api.post("/modules/stdlib.math.add/invoke", {"a": 4, "b": 5}))["outputs"] == {"out": 9}
        assert "missing: b" in (await api.post("/modules/stdlib.math.add/invoke", {"a": 4}, 400))["message"]
        assert (await api.post("/modules/none.such/invoke", {}, 404))["error"] == "NotFound"

        # An execution whose inputs are missing waits for them.
        waiting = await api.post("/run", {"source": ADD, "inputs": {"a": 1}})
        assert (waiting["success"], waiting["status"], waiting["missingInputs"]) == (True, "suspended", {"b": "CInt"})
        assert waiting["pendingOutputs"] == ["sum"]
        [listed] = (await api.get("/executions"))["executions"]
        waits = f"/executions/{waiting['executionId']}"
        assert (listed["executionId"], listed["resumptionCount"]) == (waiting["executionId"], 0)
        assert set(listed) == {"executionId", "structuralHash", "resumptionCount", "missingInputs", "createdAt"}
        kept = await api.get(waits)
        assert (kept["status"], kept["missingInputs"], kept["pendingOutputs"]) == ("suspended", {"b": "CInt"}, ["sum"])
        assert (await api.post(f"{waits}/resume", {"additionalInputs": {"b": "x"}}, 400))["success"] is False
        resumed = await api.post(f"{waits}/resume", {"additionalInputs": {"b": 6}})
        assert (resumed["outputs"], resumed["resumptionCount"]) == ({"sum": 7}, 1)
        assert (await api.post(f"{waits}/resume", {}, 404))["error"] == "NotFound"
        waiting = await api.post("/run", {"source": ADD, "inputs": {}})
        assert await api.asks("DELETE", f"/executions/{waiting['executionId']}") == {"deleted": True}
        assert (await api.get("/executions"))["executions"] == []

        # One that runs is followed by its events, from any of them on.
        source = {"source": chain(space, ["double", "wait"]), "inputs": {"x": 1}}
        async with api.http.stream("POST", "/run", json=source) as answer:
            execution = answer.headers["X-Constellation-Execution-ID"]
            events = asyncio.create_task(api.events(execution))
            await called.wait()
            goes_on.set()
            await answer.aread()
        assert answer.json()["outputs"] == {"result": 2}
        told = [each["message"].rpartition("/")[2] for _, each in await events]
        expected = ["double: started", "double: completed", "wait: started", "wait: completed", "execution completed"]
        assert told == expected
        (seen, _), *_ = await events
        again = await api.events(execution, **{"Last-Event-ID": str(seen)})
        assert [each["message"] for _, each in again] == [each["message"] for _, each in (await events)[1:]]
        kept = await api.get(f"/executions/{execution}")
        assert kept["calls"][0]["tool"] == "double"
        assert (kept["success"], kept["outputs"]) == (True, {"result": 2})
        assert kept["structuralHash"] == answer.json()["structuralHash"]
        assert (await api.asks("DELETE", f"/executions/{execution}", None, 404))["message"].endswith("has ended")
        history = (await api.get("/history?limit=1"))["executions"]
        assert [each["executionId"] for each in history] == [execution]

        # It ends when its caller closes the connection, or asks for that.
        goes_on.clear()
        for close in (True, False):
            called.clear()
            async with api.http.stream("POST", "/run", json=source) as answer:
                execution = answer.headers["X-Constellation-Execution-ID"]
                await called.wait()
                if not close:
                    assert await api.asks("DELETE", f"/executions/{execution}") == {"deleted": True}
                    assert (await _document(answer))["status"] == "failed"
            await api.ends(execution, "cancelled")


@requirement("C-http-2")
async def test_an_execution_is_joined_by_its_key_also_after_its_caller_has_left(lab: Lab) -> None:
    called, goes_on = asyncio.Event(), asyncio.Event()

    async def wait(arguments: JsonObject) -> Any:
        called.set()
        await goes_on.wait()
        return arguments

    lab.counted.tool("wait", wait, answers=ANSWERS)
    source = chain(lab.counted.namespace, ["wait"])
    async with served(lab) as api:
        api.http.headers["Idempotency-Key"] = "a key"
        body = {"source": source, "inputs": {"x": 1}}
        async with api.http.stream("POST", "/run", json=body) as answer:
            first = answer.headers["X-Constellation-Execution-ID"]
            await called.wait()
        again = asyncio.create_task(api.post("/run", body))  # the first one has closed its connection
        goes_on.set()
        assert ((await again)["executionId"], (await again)["outputs"]) == (first, {"result": 1})
        assert await api.post("/run", body) == await again
        assert lab.counted.calls == {"wait": 1}
        assert (await api.post("/run", body | {"inputs": {"x": 2}}, 409))["error"] == "Conflict"
        api.http.headers["Idempotency-Key"] = ""
        assert (await api.post("/run", body, 400))["error"] == "InvalidHeader"


async def _document(answer: httpx.Response) -> JsonObject:
    await answer.aread()
    return answer.json()


@requirement("C-http-1", "C-http-4")
async def test_modules_and_stored_pipelines_are_listed_and_changed(lab: Lab) -> None:
    lab.counted.tool("double", double, answers=ANSWERS, annotations={"readOnlyHint": True})
    space = lab.counted.namespace
    async with served(lab) as api:
        listed = {each["name"]: each for each in (await api.get("/modules"))["modules"]}
        about = listed[f"{space}.double"]
        assert (about["inputs"], about["outputs"], about["version"]) == ({"number": "CInt"}, {"number": "CInt"}, "0.0")
        assert "read-only" in about["tags"]
        assert (await api.get(f"/modules/{space}.double"))["input"] == {"type": "record", "fields": {"number": "Int"}}
        assert (await api.get("/modules/none", 404))["error"] == "NotFound"
        assert space in (await api.get("/namespaces"))["namespaces"]
        [function] = (await api.get(f"/namespaces/{space}"))["functions"]
        assert (function["qualifiedName"], function["params"]) == (f"{space}.double", ["number: Int"])
        assert (await api.get("/namespaces/none", 404))["error"] == "NamespaceNotFound"
        signatures = [function_from(each) for each in (await api.get("/signatures"))["functions"]]
        assert {each.qualified for each in signatures} == set(listed)

        first = await api.post("/compile", {"source": ADD, "name": "sums"})
        second = await api.post("/compile", {"source": SUBTRACT, "dagName": "sums"})
        name = first["storedAs"]
        assert (name, first["name"], second["version"]) == (f"user:{api.user}/sums", "sums", 2)
        path = "/pipelines/" + name.replace("/", "%2F").replace(":", "%3A")
        [summary] = (await api.get(f"/pipelines?namespace=user%3A{api.user}"))["pipelines"]
        assert summary in (await api.get("/pipelines"))["pipelines"]
        assert summary | {"inputs": {"a": "Int", "b": "Int"}, "declaredOutputs": ["sum"], "moduleCount": 0} == summary
        assert (summary["structuralHash"], summary["aliases"]) == (second["structuralHash"], [name])
        shown = await api.get(path)
        assert (shown["inputSchema"], shown["source"]) == ({"a": "CInt", "b": "CInt"}, SUBTRACT)
        assert await api.get("/pipelines/sums") == shown
        assert (await api.post("/execute", {"dagName": "sums", "inputs": {"a": 5, "b": 2}}))["outputs"] == {"sum": 3}

        versions = await api.get(f"{path}/versions")
        assert [(each["version"], each["active"]) for each in versions["versions"]] == [(1, False), (2, True)]
        assert versions["activeVersion"] == 2
        rolled = await api.post(f"{path}/rollback")
        assert (rolled["previousVersion"], rolled["activeVersion"], rolled["structuralHash"]) == (
            2,
            1,
            first["structuralHash"],
        )
        assert (await api.post(f"{path}/rollback/2"))["activeVersion"] == 2
        assert (await api.post(f"{path}/rollback/two", status=400))["error"] == "InvalidVersion"
        assert (await api.post(f"{path}/rollback/9", status=404))["error"] == "NotFound"
        reloaded = await api.post(f"{path}/reload", {"source": ADD})
        assert (reloaded["changed"], reloaded["version"], reloaded["newHash"]) == (True, 3, first["structuralHash"])
        assert (await api.post(f"{path}/reload"))["changed"] is False
        assert (await api.post(f"{path}/reload", {"source": FAULTY}, 400))["error"] == "CompilationError"
        for method, part in (("GET", ""), ("DELETE", ""), ("POST", "/promote"), ("POST", "/rollback")):
            assert (await api.asks(method, f"{path}/canary{part}", status=400))["error"] == "CanaryNotEnabled"
        assert (await api.post(f"{path}/reload", {"canary": {}}, 400))["error"] == "CanaryNotEnabled"
        for given in (second["structuralHash"], f"sha256:{second['structuralHash']}"):
            alias = await api.asks("PUT", f"/pipelines/shared%2F{api.user}/alias", {"structuralHash": given})
            assert alias == {"name": f"shared/{api.user}", "structuralHash": second["structuralHash"]}
        difference = await api.post("/diff", {"left": "sums", "right": f"shared/{api.user}"})
        assert (difference["same"], difference["left"]) == (False, first["structuralHash"])
        assert (await api.post("/diff", {"left": "sums", "right": ADD}))["same"]
        assert (await api.post("/diff", {"left": "sums", "right": FAULTY}, 400))["error"] == "CompilationError"
        chart = await api.http.get(f"{path}/dag.mmd")
        assert (chart.headers["content-type"], chart.text[:9]) == ("text/vnd.mermaid; charset=utf-8", "flowchart")
        picture = await api.http.get(f"{path}/dag.svg")
        assert picture.headers["content-type"] == "image/svg+xml"
        assert "default-src 'none'" in picture.headers["content-security-policy"]

        await lab.call("publish", {"ref": name, "name": api.user}, Principal(id=api.user))
        tool = f"pipelines.published.{api.user}"

        async def published() -> bool:
            return any(each["name"] == tool for each in (await api.get("/modules/published"))["modules"])

        await until(published)
        modules = {each["name"]: each for each in (await api.get("/modules/published"))["modules"]}
        assert modules[tool]["tags"][:2] == ["pipelines", "published"]
        assert (await api.post(modules[tool]["endpoint"], {"a": 1, "b": 2}))["outputs"] == {"sum": 3}
        taken = await api.asks("DELETE", f"/pipelines/sha256%3A{first['structuralHash']}", status=409)
        assert taken["error"] == "AliasConflict"
        assert await api.asks("DELETE", path) == {"deleted": True}
        assert (await api.get(path, 404))["message"] == f"Pipeline '{name}' not found"
