"""A downstream server that is connected and does not answer: all turns that need its tools share one wait."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest
from mcp import ClientSession
from mcp_types import ListToolsResult, PaginatedRequestParams
from pydantic import SecretStr
from tests.runtimes import DemoServer
from tests.waiting import Collected, eventually, soon

from agent_worker.downstream import server as downstream
from agent_worker.downstream.server import DownstreamServer
from pallas_contracts.errors import Unavailable
from pallas_teams.model import HttpServer


@pytest.fixture(autouse=True)
def questions(monkeypatch: pytest.MonkeyPatch) -> Collected[ClientSession]:
    """The sessions in which tools were asked for. The pause after a failure does not end during a test."""
    asked, list_tools = Collected[ClientSession](), ClientSession.list_tools

    async def ask(session: ClientSession, *, params: PaginatedRequestParams | None = None) -> ListToolsResult:
        asked.add(session)
        return await list_tools(session, params=params)

    monkeypatch.setattr(ClientSession, "list_tools", ask)
    monkeypatch.setattr(downstream, "COOL_DOWN", 3600.0)
    return asked


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Callable[[DemoServer], None]:
    """Let a server hang. Time-outs of its clients are short then."""

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
async def listing(demo_server: DemoServer) -> AsyncGenerator[DownstreamServer]:
    """A server that is connected and whose tools are being listed."""
    async for made in _connected(demo_server):
        yield made


@pytest.fixture
async def of_handshake_era(legacy_server: DemoServer) -> AsyncGenerator[DownstreamServer]:
    """A connected server that forgets its sessions when it restarts."""
    async for made in _connected(legacy_server):
        yield made


async def _nothing(progress: float, total: float | None, message: str | None) -> None: ...


async def test_concurrent_turns_wait_once_for_the_tools_of_a_hanging_server(
    demo_server: DemoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Collected[ClientSession]()

    async def hang(session: ClientSession, *, params: PaginatedRequestParams | None = None) -> ListToolsResult:
        asked.add(session)
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    monkeypatch.setattr(downstream, "CONNECT_TIMEOUT", 0.5)
    monkeypatch.setattr(ClientSession, "list_tools", hang)
    async for hanging in _connected(demo_server):
        waited = await soon(asyncio.gather(*(hanging.tools() for _ in range(20)), return_exceptions=True))
        assert [type(each) for each in waited] == [Unavailable] * 20
        with pytest.raises(Unavailable, match="does not list its tools"):
            await hanging.tools()
        assert len(asked.items) == 1, "nobody waits right behind a failure"
        assert (hanging.lacking() or "").startswith("toolbox does not list its tools (since ")


async def test_a_turn_that_stops_waiting_does_not_end_the_wait_of_others(listing: DownstreamServer) -> None:
    first, second = asyncio.create_task(listing.tools()), asyncio.create_task(listing.tools())
    await asyncio.sleep(0)
    first.cancel()
    assert "add" in [tool.name for tool in await second]


async def test_known_tools_are_returned_at_once_while_the_server_hangs(
    of_handshake_era: DownstreamServer,
    legacy_server: DemoServer,
    questions: Collected[ClientSession],
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
    legacy_server.kill()  # or the end of its session is waited for
