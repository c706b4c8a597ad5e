"""What servers and a model's provider answer costs a worker of fast-agent a bounded time and memory."""

import json
import threading
from collections.abc import AsyncGenerator, Generator

import pytest
from tests.integration.agent_worker.odd_mcp import ECHO, Json, OddMcp, odd_mcp, text, zipped
from tests.integration.agent_worker.test_odd_servers import LATIN
from tests.integration.agent_worker.test_openai_compatible import Provider
from tests.integration.fast_agent_worker.stage import Stage, a_stage, python, until_hosted

PYTHON = python()
PROGRAM = """
import asyncio
from fast_agent import FastAgent

fast = FastAgent("bounded")


@fast.agent("http", "You help.", model="passthrough", servers=["odd"])
@fast.agent("lines", "You help.", model="passthrough", servers=["endless"])
@fast.agent("asks", "You help.", model="generic.tiny", servers=["many"])
async def main():
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
"""
ENDLESS = "{}: open({!r}, 'w').close(); sys.stdout.buffer.write(b'x' * 40_000_000); sys.stdout.flush(); time.sleep(60)"
ECHOED = '***CALL_TOOL {}__echo {{"text": "x"}}'


@pytest.fixture(scope="module")
def odd() -> Generator[OddMcp]:
    with odd_mcp() as server:
        yield server


@pytest.fixture(scope="module")
def many() -> Generator[OddMcp]:
    with odd_mcp() as server:
        server.pages = lambda _cursor: {"tools": [{**ECHO, "name": f"t{number}"} for number in range(3_000)]}
        yield server


@pytest.fixture(scope="module")
def provider() -> Generator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
async def stage(
    nats_url: str, odd: OddMcp, many: OddMcp, provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Stage]:
    place = tmp_path_factory.mktemp("bounds")
    source, once = place / "source", str(place / "once")
    source.mkdir()
    endless = ENDLESS.format(f"if not os.path.exists({once!r})", once)
    program = LATIN.replace('"tools/call":\n', f'"tools/call":\n        {endless}\n')
    (source / "endless.py").write_text(f"import os, time\n{program}")
    (source / "agent.py").write_text(PROGRAM)
    agents = "".join(f"  {name}: {{module: agent.py}}\n" for name in ("http", "lines", "asks"))
    (source / "agents.yaml").write_text(f"agents:\n{agents}")
    servers = {
        "odd": {"url": odd.url},
        "many": {"url": many.url},
        "endless": {"command": str(PYTHON), "args": [str(source / "endless.py")]},
    }
    settings = {"generic": {"api_key": "k", "base_url": provider.url}, "mcp": {"servers": servers}}
    (source / "fastagent.config.yaml").write_text(json.dumps(settings))
    async with a_stage(nats_url, place, "bounded", source) as running:
        for name in ("http", "lines", "asks"):
            await until_hosted(running, name)
        yield running


@pytest.mark.parametrize("kind", ["zipped", "huge"])
async def test_an_answer_of_a_server_without_bounds_fails_its_call_alone(stage: Stage, odd: OddMcp, kind: str) -> None:
    def huge(_name: str, _given: Json) -> bytes:
        ends = json.dumps({"jsonrpc": "2.0", "id": 3, "result": text("fine")}).encode()
        return zipped(200) if kind == "zipped" else b" " * (20 * 1024 * 1024) + ends

    odd.call = huge
    odd.headers = {"content-type": "application/json"} | ({"content-encoding": "gzip"} if kind == "zipped" else {})
    assert "fine" not in (await stage.call("http", ECHOED.format("odd"))).text
    odd.call, odd.headers = lambda _name, _given: text("half: \ud83d"), {"content-type": "application/json"}
    assert (await stage.call("http", ECHOED.format("odd"))).text == "half: \ufffd"


async def test_a_stdio_server_that_writes_a_line_without_end_is_started_again_and_its_call_ends(stage: Stage) -> None:
    await stage.call("lines", ECHOED.format("endless"))
    assert (await stage.call("lines", ECHOED.format("endless"))).text == "half: \ufffd"


@pytest.mark.parametrize(
    ("letters", "coding", "missing"),
    [(9 * 1024 * 1024, None, 0), (1, "gzip, gzip", 0), (1, None, 3)],
    ids=["large", "compressed", "cut off"],
)
async def test_an_answer_of_a_model_that_is_too_large_compressed_or_cut_off_is_none(
    stage: Stage, provider: Provider, many: OddMcp, letters: int, coding: str | None, missing: int
) -> None:
    provider.requests.clear()
    many.asked.clear()
    provider.words, provider.coding, provider.missing = ("x" * letters,), coding, missing
    piece = {"index": 0, "id": "a", "type": "function", "function": {"name": "many__t1", "arguments": "{}"}}
    provider.calls = [piece]
    answer = await stage.call("asks", "hello")
    assert (answer.error or {}).get("code") == "model_failed"
    assert len(provider.requests) == 1
    assert "tools/call" not in many.asked


async def test_of_very_many_tools_the_first_ones_are_used(stage: Stage, provider: Provider) -> None:
    provider.words, provider.coding, provider.missing, provider.calls = ("done",), None, 0, []
    provider.requests.clear()
    assert (await stage.call("asks", "hello")).text == "done"
    assert len(provider.requests[0]["tools"]) == 1_000
