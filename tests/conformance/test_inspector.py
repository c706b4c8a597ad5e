"""The official inspector as a third-party client, in every era that it supports."""

import json
from typing import Any

import pytest
from tests.conformance.node import node
from tests.requirements import requirement

INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.timeout(400)]


@pytest.fixture(params=["legacy", "auto", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    """The eras of the inspector."""
    return request.param


def inspect(url: str, era: str, *arguments: str) -> dict[str, Any]:
    """Call a method with the inspector. Returns the result."""
    options = ("--cli", "--server-url", url, "--transport", "http", "--protocol-era", era, "--format", "json", "-q")
    done = node(INSPECTOR, *options, "--method", *arguments)
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)["result"]


def test_the_inspector_lists_the_tools(conformance_url: str, era: str) -> None:
    tools = [tool["name"] for tool in inspect(conformance_url, era, "tools/list")["tools"]]
    assert "test_simple_text" in tools
    assert tools[-1] == "get_health"


@requirement("K-use-1")
def test_the_inspector_calls_a_tool(conformance_url: str, era: str) -> None:
    call = ("tools/call", "--tool-name", "test_custom_header", "--tool-arg", "region=north")
    result = inspect(conformance_url, era, *call)
    assert result["content"] == [{"type": "text", "text": "Region: north"}]
    assert not result["isError"]


def test_the_inspector_executes_a_pipeline(conformance_url: str, era: str) -> None:
    url = conformance_url.replace("/teams/conformance/mcp/conformance", "/teams/pipelines/mcp/constellation")
    program = "in x: Int\ny = x * 2\nout y"
    call = ("tools/call", "--tool-name", "execute", "--tool-arg", f"source={program}", "--tool-arg", 'inputs={"x": 21}')
    assert inspect(url, era, *call)["structuredContent"]["outputs"] == {"y": 42}
