"""A downstream server that is connected and does not answer: whoever needs its tools waits once, and all together."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from pydantic import SecretStr
from tests.runtimes import DemoServer
from tests.waiting import eventually

from agent_worker.downstream import server as downstream
from agent_worker.downstream.server import DownstreamServer
from pallas_contracts.errors import Unavailable
from pallas_teams.model import HttpServer

_PATIENCE = 0.5


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """For an answer; how long is no matter here."""
    monkeypatch.setattr(downstream, "CONNECT_TIMEOUT", _PATIENCE)


async def _connected(server: DemoServer) -> AsyncGenerator[DownstreamServer]:
    made = DownstreamServer(HttpServer(name="toolbox", url=SecretStr(server.url), headers={}), "toolbox")
    made.start()
    await eventually(lambda: made.error is None)
    yield made
    await made.close()


@pytest.fixture
async def unlisted(demo_server: DemoServer) -> AsyncGenerator[DownstreamServer]:
    """Connected, and not asked for its tools yet."""
    async for made in _connected(demo_server):
        yield made


@pytest.fixture
async def of_handshake_era(legacy_server: DemoServer) -> AsyncGenerator[DownstreamServer]:
    """Connected to one that forgets its sessions when it is started again."""
    async for made in _connected(legacy_server):
        yield made


async def _nothing(progress: float, total: float | None, message: str | None) -> None: ...


async def test_all_who_wait_for_the_tools_of_a_server_that_hangs_wait_once(
    unlisted: DownstreamServer, demo_server: DemoServer
) -> None:
    demo_server.hang()
    clock = asyncio.get_running_loop().time
    began = clock()
    waited = await asyncio.gather(*(unlisted.tools() for _ in range(20)), return_exceptions=True)
    together = clock() - began
    assert [type(each) for each in waited] == [Unavailable] * 20
    with pytest.raises(Unavailable, match="does not list its tools"):
        await unlisted.tools()
    assert clock() - began - together < _PATIENCE / 2, "nobody waits right behind a failure"
    assert together < 10 * _PATIENCE


async def test_one_who_gives_up_waiting_does_not_end_it_for_the_others(unlisted: DownstreamServer) -> None:
    first, second = asyncio.create_task(unlisted.tools()), asyncio.create_task(unlisted.tools())
    await asyncio.sleep(0)
    first.cancel()
    assert "add" in [tool.name for tool in await second]


async def test_tools_that_are_known_are_given_at_once_while_the_server_hangs(
    of_handshake_era: DownstreamServer, legacy_server: DemoServer
) -> None:
    known = await of_handshake_era.tools()
    legacy_server.kill()
    await asyncio.to_thread(legacy_server.start)
    await of_handshake_era.call("add", {"a": 1, "b": 2}, _nothing)
    legacy_server.hang()
    assert await of_handshake_era.tools() == known
    clock = asyncio.get_running_loop().time
    began = clock()
    for _ in range(20):
        assert await of_handshake_era.tools() == known
    assert clock() - began < _PATIENCE / 2
    legacy_server.kill()  # or the goodbye to it is waited for
