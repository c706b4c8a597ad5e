"""Pipelines in a whole stack: the tutorial (`docs/tutorials/first-pipeline.md`), over MCP, and by the local server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.e2e.auth_stack import AuthStack
from tests.e2e.stack import PALLAS
from tests.integration.real_parts import until
from tests.requirements import requirement

HEADLINES = Path(__file__).parents[2] / "docs" / "examples" / "headlines.cst"
APPLE = {"summary": "APPLE RELEASES NEW PRODUCT; ANALYSTS BULLISH ON AAPL (8 words)"}

pytestmark = pytest.mark.timeout(240)


def pallas(stack: AuthStack, *words: str, status: int = 0) -> str:
    """What a command prints."""
    return printed([PALLAS, "pipelines", *words, "--data", stack.ready["data"]], status)


def call(stack: AuthStack, tool: str, *words: str) -> str:
    """What a tool of the agent answers, as JSON."""
    command = [PALLAS, "call", "--data", stack.ready["data"], "--json", "pipelines/constellation", tool, *words]
    return printed(command)


def printed(command: list[str], status: int = 0) -> str:
    """What a command with this exit code prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout


def as_json(stack: AuthStack, *words: str) -> Any:
    """The JSON that a command prints."""
    return json.loads(pallas(stack, *words, "--json"))


async def test_the_tutorial_without_a_model(auth_stack: AuthStack) -> None:
    program = str(HEADLINES)
    assert as_json(auth_stack, "validate", program)["valid"] is True
    assert json.loads(pallas(auth_stack, "run", program, "--input", "symbol=AAPL")) == APPLE
    assert pallas(auth_stack, "run", program, status=1) == ""
    stored = as_json(auth_stack, "compile", program, "--name", "headlines")["storedAs"]
    assert json.loads(pallas(auth_stack, "run", "headlines", "--input", "symbol=AAPL")) == APPLE
    assert stored in call(auth_stack, "list_pipelines")
    assert "Uppercase" in pallas(auth_stack, "show", "headlines", "--mermaid")
    assert len(json.loads(call(auth_stack, "history"))["executions"]) >= 2
    call(auth_stack, "diff", "--left", "headlines", "--right", f"@{program}")


async def test_the_tutorial_over_the_mcp_endpoint_of_the_platform(auth_stack: AuthStack) -> None:
    source = HEADLINES.read_text("utf-8")
    endpoint = f"{auth_stack.ready['gateway']}/teams/pipelines/mcp"
    async with Client(f"{endpoint}/constellation") as client:
        checked = await client.call_tool("validate", {"source": source})
        assert checked.structured_content == {"valid": True, "warnings": []}
        ran = await client.call_tool("execute", {"source": source, "inputs": {"symbol": "AAPL"}})
        assert (ran.structured_content or {})["outputs"] == APPLE
        await client.call_tool("compile", {"source": source, "name": "headlines"})
        await client.call_tool("publish", {"ref": "headlines", "name": "headlines", "description": "News in a line"})
        async with Client(f"{endpoint}/published") as published:

            async def listed() -> bool:
                return "headlines" in {tool.name for tool in (await published.list_tools()).tools}

            await until(listed)
            answer = await published.call_tool("headlines", {"symbol": "AAPL"})
        assert answer.structured_content == APPLE
        await client.call_tool("unpublish", {"ref": "headlines"})


@requirement("C-arch-1")
async def test_the_tutorial_with_the_local_mcp_server(auth_stack: AuthStack) -> None:
    program = Path(sys.executable).with_name("constellation-mcp")
    env = {**os.environ, "CONSTELLATION_URL": auth_stack.ready["pipelines"], "CONSTELLATION_AGENT_USER": "ann@acme.com"}
    parameters = StdioServerParameters(command=str(program), env=env)
    async with Client(stdio_client(parameters)) as client:
        ran = await client.call_tool("execute", {"source": HEADLINES.read_text("utf-8"), "inputs": {"symbol": "AAPL"}})
        assert (ran.structured_content or {})["outputs"] == APPLE
        [message] = (await client.get_prompt("write_pipeline", {"goal": "Count words"})).messages
        assert "data.example_lib.WordCount" in message.model_dump_json()
