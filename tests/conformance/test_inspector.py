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


def inspect(url: str, era: str, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Call a method with the inspector, which ends with `code`. Returns the result."""
    options = ("--cli", "--server-url", url, "--transport", "http", "--protocol-era", era, "--format", "json", "-q")
    done = node(INSPECTOR, *options, "--method", *arguments)
    assert done.returncode == code, done.stdout
    return json.loads(done.stdout.splitlines()[0] if code else done.stdout)["result"]


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


def test_the_inspector_uses_the_fleet(conformance_url: str) -> None:
    """It checks each answer against the tool's output schema."""
    url = conformance_url.replace("/teams/conformance/mcp/conformance", "/teams/fleet/mcp/fleet")

    def call(tool: str, *arguments: str, code: int = 0) -> dict[str, Any]:
        given = [part for each in arguments for part in ("--tool-arg", each)]
        return inspect(url, "auto", "tools/call", "--tool-name", tool, *given, code=code)

    made = call("create_agent", "name=Papi", "project=Setup", "spec=work 60 s")
    assert made["structuredContent"]["agent"]["status"] == "idle"
    named = "agent_name=papi"
    for tool, arguments in (
        ("list_agents", ()),
        ("show_agent", (named,)),
        ("show_agent_task_history", (named, "page=1")),
        ("list_agent_roles", ("project=Setup",)),
        ("list_agent_projects", ()),
        ("stop_agent_task", (named,)),
        ("start_agent_task", (named, "task_description=work 60 s")),
        ("delete_agent", (named,)),
    ):
        result = call(tool, *arguments)
        assert not result["isError"], (tool, result)
        assert result["structuredContent"]
    gone = call("show_agent", named, code=5)
    assert gone["isError"]
    assert json.loads(gone["content"][0]["text"])["error"] == "not_found"
