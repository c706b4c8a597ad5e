"""JSON-RPC clients of others call functions at `/rpc`, and OpenRPC's own meta-schema accepts the document."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft7Validator, validate
from pjrpc.client.backend.httpx import AsyncClient
from pjrpc.common.exceptions import JsonRpcError
from referencing import Registry
from referencing.jsonschema import DRAFT7
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.rpc import Rpc, execute
from tests.node import NodePackages
from tests.requirements import requirement

from pallas_contracts.agents import ToolDefinition
from pallas_contracts.bounds import Json

CLIENTS = NodePackages(Path(__file__).parent / "rpc_clients")

AWKWARD = ToolDefinition(
    name="walk a tree / ü",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}, "prefixItems": [{"type": "string"}]}},
    },
    output_schema={"type": "object", "properties": {"result": True}},
    meta={"pallas/wrapped": True},
)


@pytest.fixture(scope="module")
def installed() -> None:
    """The installed npm packages."""
    CLIENTS.install()


@pytest.fixture
async def rpc(platform: Platform, http: httpx.AsyncClient) -> Rpc:
    """`/rpc` of a team with a worker, and with an agent whose schemas are unusual."""
    await platform.worker()
    front = await platform.gateway()
    await platform.publish("awkward", tools=(AWKWARD,), facts={"resources": ["trees"], "constraints": {"timeout": 5}})
    await platform.served(front)
    await platform.served(front, "awkward")
    return Rpc(http, front, platform.team)


@requirement("D-8.2")
@pytest.mark.usefixtures("installed")
async def test_clients_from_npm_call_functions_and_read_the_document(rpc: Rpc) -> None:
    done = await asyncio.to_thread(CLIENTS.run, CLIENTS.folder / "clients.mjs", rpc.url, "bench")
    assert done.returncode == 0, done.stdout
    seen = json.loads(done.stdout)
    assert set(seen["found"]) == {"jayson", "json-rpc-2.0", "vscode-jsonrpc", "open-rpc"}
    documents = list[dict[str, Any]]()
    for name, calls in seen["found"].items():
        assert calls["answered"] == {"result": "AAPL (attempt 1)"}, name
        assert calls["unknown"]["code"] == -32601, name
        assert calls["unknown"]["data"]["agent_id"] == "bench", name
        documents.append(calls["document"]["result"])
    assert documents == [documents[0]] * 4
    check_document(documents[0], seen["schemas"])


def check_document(document: dict[str, Any], schemas: dict[str, dict[str, Any]]) -> None:
    """Check a document against OpenRPC's meta-schema, and that each reference in it leads somewhere."""
    resources = {address: DRAFT7.create_resource(schema) for address, schema in schemas.items()}
    both = [(name, it) for address, it in resources.items() for name in (address, address.rstrip("/"))]
    known = Registry[Any]().with_resources(both)
    validate(document, schemas["https://meta.open-rpc.org/"], cls=Draft7Validator, registry=known)
    [awkward] = [agent for agent in document["x-agents"] if agent["agent_id"] == "awkward"]
    assert awkward["resources"] == ["trees"]
    for reference in references(document):
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def references(value: Json) -> list[str]:
    """Every `$ref` in a JSON value."""
    match value:
        case {"$ref": str(reference)}:
            return [reference]
        case dict():
            return [found for each in value.values() for found in references(each)]
        case list():
            return [found for each in value for found in references(each)]
        case _:
            return []


async def test_pjrpc_calls_a_function_alone_in_a_batch_and_as_a_notification(rpc: Rpc) -> None:
    call = execute("bench", "say", {"text": "AAPL"})["params"]
    client = AsyncClient(rpc.url, http_client=rpc.http)
    assert await client("agent.execute", **call) == "AAPL (attempt 1)"
    with pytest.raises(JsonRpcError) as unknown:
        await client("agent.execute", **{**call, "function": "fly"})
    assert (unknown.value.code, unknown.value.message) == (-32601, "Method not found: unknown function")
    await client.notify("agent.execute", **call)
    async with client.batch() as batch:
        batch("agent.execute", **call)
        batch("agent.execute", **call)
    assert batch.get_results() == ["AAPL (attempt 1)"] * 2
