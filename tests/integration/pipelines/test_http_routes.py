"""The routes of the engine's HTTP API (`http-api-contract.md`), with what RFC-018 and Pallas add."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tests.integration.pipelines.lab import Lab, chain

from pallas_contracts.agents import JsonObject

ADD = "use stdlib.math\nin a: Int\nin b: Int\nsum = add(a, b)\nout sum"


async def double(arguments: JsonObject) -> Any:
    """Twice the number."""
    return {"number": arguments["number"] * 2}


@asynccontextmanager
async def served(lab: Lab, **settings: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a replica that knows an agent with the tool `double`."""
    answers = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    lab.counted.tool("double", double, answers=answers, annotations={"readOnlyHint": True})
    replica = await lab.replica(**settings)
    await lab.host()
    await lab.known(replica)
    async with httpx.AsyncClient(base_url=replica.url, trust_env=False, timeout=20) as http:
        yield http


async def test_programs_are_checked_compiled_and_run(lab: Lab) -> None:
    async with served(lab) as http:
        answer = await http.post("/validate", json={"source": ADD})
        assert answer.json() == {"valid": True, "warnings": []}
        answer = await http.post("/compile", json={"source": ADD, "name": "add"})
        print(answer.json())
        run = await http.post("/run", json={"source": ADD, "inputs": {"a": 1, "b": 2}})
        print(run.headers, run.json())
        run = await http.post("/run", json={"source": ADD, "inputs": {"a": 1}})
        print(run.headers, run.json())
        print((await http.get("/executions")).json())
        id = run.json()["executionId"]
        print((await http.post(f"/executions/{id}/resume", json={"additionalInputs": {"b": 7}})).json())
        run = await http.post("/execute", json={"ref": "add", "inputs": {"a": 1, "b": 2}})
        print(run.headers, run.json())
        run = await http.post(
            "/run", json={"source": chain(lab.counted.namespace, ["double", "double"]), "inputs": {"x": 1}}
        )
        print(run.headers, run.json())
        print((await http.get(f"/executions/{run.json()['executionId']}/events")).text)
        print((await http.get(f"/executions/{run.json()['executionId']}")).text)
        for path in (
            "/modules",
            "/namespaces",
            "/signatures",
            "/pipelines",
            "/pipelines/add",
            "/pipelines/add/versions",
            "/history",
            "/health",
            "/health/ready",
            "/metrics",
            "/pipelines/add/dag.mmd",
            "/nothing",
            "/run",
        ):
            print(path, (await http.get(path)).text[:1500])
        print((await http.post(f"/modules/{lab.counted.namespace}.double/invoke", json={"number": 4})).text)
        print((await http.post("/modules/stdlib.math.add/invoke", json={"a": 4, "b": 5})).text)
        print((await http.post("/batch", json={"source": ADD, "inputs": [{"a": 4, "b": 5}]})).text)
        assert 0
