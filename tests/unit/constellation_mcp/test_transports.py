"""The program itself: over standard input and output, Streamable HTTP and the older SSE."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from tests.requirements import requirement
from tests.unit.constellation_mcp.constellation import KEY, Constellation
from tests.unit.constellation_mcp.test_server import SOURCE, called, read, refused
from tests.waiting import soon

from pallas_cst import documents

PROGRAM = str(Path(sys.executable).with_name("constellation-mcp"))


def environment(url: str, home: Path) -> dict[str, str]:
    """The variables of the RFC, and a home without a configuration."""
    named = {"CONSTELLATION_URL": url, "CONSTELLATION_API_KEY": KEY, "CONSTELLATION_AGENT_USER": "alice@acme.com"}
    return {"HOME": str(home), **named}


@asynccontextmanager
async def listening(option: str, constellation: Constellation, folder: Path) -> AsyncGenerator[str]:
    """The program on a free port; yields its address."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM, option, "0", env=environment(constellation.url, folder), cwd=folder, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        found = None
        while found is None:
            line = (await soon(process.stderr.readline())).decode()
            assert line, "it has ended"
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
        yield found[0]
    finally:
        process.terminate()
        await soon(process.communicate())


async def status_for_another_host(url: str) -> int:
    """The status of a request as a page in a browser makes it that has got this address for its own name."""
    async with httpx2.AsyncClient() as http:
        return (await http.get(url, headers={"host": "elsewhere.example"})).status_code


@requirement("C-cfg-4", "C-arch-1")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_entry_of_a_host_is_all_that_is_needed(
    constellation: Constellation, mode: str, tmp_path: Path
) -> None:
    started = StdioServerParameters(command=PROGRAM, env=environment(constellation.url, tmp_path), cwd=tmp_path)
    async with Client(started, mode=mode) as client:
        assert await called(client, "validate", source=SOURCE) == {"valid": True, "warnings": []}
        assert await read(client, "docs/examples/greeting") == documents.read("examples/greeting")
    [(_, _, _, headers)] = constellation.requests
    assert headers["x-constellation-agent"] == "mcp:alice@acme.com"


@requirement("C-arch-3")
async def test_without_a_network_the_documents_are_there(tmp_path: Path) -> None:
    (tmp_path / "constellation-mcp.json").write_text(json.dumps({"constellation": {"baseUrl": "http://127.0.0.1:1"}}))
    async with Client(StdioServerParameters(command=PROGRAM, env={"HOME": str(tmp_path)}, cwd=tmp_path)) as client:
        assert await read(client, "docs/errors/E010") == documents.read("errors/E010")
        assert "cannot be reached" in await refused(client, "list_modules")


@requirement("C-arch-1", "C-arch-2")
async def test_it_is_reached_by_streamable_http(constellation: Constellation, tmp_path: Path) -> None:
    async with listening("--http", constellation, tmp_path) as url:
        assert await status_for_another_host(f"{url}/mcp") == 421
        for mode in ("auto", "legacy"):
            async with Client(f"{url}/mcp", mode=mode) as client:
                assert (await called(client, "validate", source=SOURCE))["valid"]


@requirement("C-arch-1")
async def test_it_is_reached_by_the_older_sse(constellation: Constellation, tmp_path: Path) -> None:
    async with listening("--sse", constellation, tmp_path) as url:
        assert await status_for_another_host(f"{url}/sse") == 421
        async with Client(sse_client(f"{url}/sse"), mode="legacy") as client:
            assert (await called(client, "validate", source=SOURCE))["valid"]


async def test_it_does_not_start_with_a_wrong_configuration(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"features": {"allowEverything": true}}')
    process = await asyncio.create_subprocess_exec(
        PROGRAM, "--config", str(wrong), env={"HOME": str(tmp_path)}, stderr=asyncio.subprocess.PIPE
    )
    _, said = await soon(process.communicate())
    assert (process.returncode, said) == (2, b"constellation-mcp: features.allowEverything: no such field\n")
