"""A downstream server that is connected and does not answer: whoever needs its tools waits once, and all together."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest
from mcp import Client
from mcp_types import ListToolsResult
from pydantic import SecretStr
from tests.runtimes import DemoServer
from tests.waiting import Collected, eventually, soon

from agent_worker.downstream import server as downstream
from agent_worker.downstream.server import DownstreamServer
from pallas_contracts.errors import Unavailable
from pallas_teams.model import HttpServer


@pytest.fixture(autouse=True)
def questions(monkeypatch: pytest.MonkeyPatch) -> Collected[Client]:
    """Who was asked for tools. The moment behind a failure, in which nobody is asked again, does not pass."""
    asked, list_tools = Collected[Client](), Client.list_tools

    async def ask(client: Client, *, cursor: str | None = None) -> ListToolsResult:
        asked.add(client)
        return await list_tools(client, cursor=cursor)

    monkeypatch.setattr(Client, "list_tools", ask)
    monkeypatch.setattr(downstream, "COOL_DOWN", 3600.0)
    return asked


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Callable[[DemoServer], None]:
    """Let a server hang; how long anybody waits for its answer then is no matter here."""

    def hang(server: DemoServer) -> None:
        monkeypatch.setattr(downstream, "CONNECT_TIMEOUT", 0.5)
        server.hang()

    return hang


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
    unlisted: DownstreamServer,
    demo_server: DemoServer,
    questions: Collected[Client],
    hang: Callable[[DemoServer], None],
) -> None:
    hang(demo_server)
    waited = await soon(asyncio.gather(*(unlisted.tools() for _ in range(20)), return_exceptions=True))
    assert [type(each) for each in waited] == [Unavailable] * 20
    with pytest.raises(Unavailable, match="does not list its tools"):
        await unlisted.tools()
    assert len(questions.items) == 1, "nobody waits right behind a failure"


async def test_one_who_gives_up_waiting_does_not_end_it_for_the_others(unlisted: DownstreamServer) -> None:
    first, second = asyncio.create_task(unlisted.tools()), asyncio.create_task(unlisted.tools())
    await asyncio.sleep(0)
    first.cancel()
    assert "add" in [tool.name for tool in await second]


async def test_tools_that_are_known_are_given_at_once_while_the_server_hangs(
    of_handshake_era: DownstreamServer,
    legacy_server: DemoServer,
    questions: Collected[Client],
    hang: Callable[[DemoServer], None],
) -> None:
    known = await of_handshake_era.tools()
    legacy_server.kill()
    await asyncio.to_thread(legacy_server.start)
    await of_handshake_era.call("add", {"a": 1, "b": 2}, _nothing)
    hang(legacy_server)
    assert await of_handshake_era.tools() == known
    assert len(questions.items) == 1 + 1, "the connection is a new one"
    for _ in range(20):
        assert await of_handshake_era.tools() == known
    assert len(questions.items) == 1 + 1, "who would have to wait for nothing does not ask"
    legacy_server.kill()  # or the goodbye to it is waited for
