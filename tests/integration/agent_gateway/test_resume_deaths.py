"""Gateways and workers that are killed under a stream of the handshake era, and the official client that resumes it."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL
from contextlib import suppress
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.shared.message import ClientMessageMetadata
from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, LoggingMessageNotificationParams
from tests.e2e import wire
from tests.embedded import free_port
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.streams import KEY, Received, counting
from tests.integration.agent_gateway.test_drain import a_gateway_process, status
from tests.integration.real_parts import Front, a_lab, until
from tests.link import linked
from tests.waiting import Collected, eventually, soon

from pallas_contracts.turns import Claimed


@pytest.fixture
async def front(platform: Platform) -> Front:
    """The replica that keeps running."""
    return await platform.gateway(log_key=KEY)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_stream_is_resumed_after_each_of_its_gateways_was_killed(
    platform: Platform, front: Front, http: httpx.AsyncClient, number: signal.Signals
) -> None:
    await platform.worker()
    await platform.served(front)
    received, file, ports = Received(), platform.file(), (free_port(), free_port())
    urls = [f"http://127.0.0.1:{port}/teams/{platform.team}/mcp/bench" for port in ports]
    async with (
        a_gateway_process(platform.url, ports[0], PALLAS_LOG_KEY=KEY) as first,
        a_gateway_process(platform.url, ports[1], PALLAS_LOG_KEY=KEY) as second,
    ):

        async def both_answer() -> bool:
            return {await status(http, url) for url in urls} == {200}

        await until(both_answer, 60)
        async with counting(http, urls[0], file) as stream:
            await soon(received.until(stream, 10))
            first.send_signal(number)
            await ended(received, stream)
        async with wire.resumed(http, urls[1], received.ids[4]) as stream:
            received.events = received.events[:5]
            await soon(received.until(stream, 10))
            second.send_signal(number)
            await ended(received, stream)
    file.touch()
    await received.resume(http, front.url(platform.team, "bench"))
    received.assert_complete()


async def ended(received: Received, stream: wire.Stream) -> None:
    """Wait until a stream has broken or ended."""
    with suppress(httpx.TransportError):
        await soon(received.rest(stream))


async def test_a_resumed_stream_has_the_rest_of_a_superseded_attempt_and_all_of_the_next(
    platform: Platform, front: Front, http: httpx.AsyncClient
) -> None:
    folder = a_lab(platform.folder, platform.team)
    environ = {**os.environ, "PALLAS_NATS_URL": platform.url, "PALLAS_TEAMS": str(folder)}
    doomed = await asyncio.create_subprocess_exec(sys.executable, "-m", "agent_worker", env=environ, stderr=DEVNULL)
    received, file, url = Received(), platform.file(), front.url(platform.team, "bench")
    try:
        await eventually(lambda: not isinstance(front.gateway.http.endpoints.find(platform.team, "bench"), str), 60)
        async with counting(http, url, file) as stream:
            await soon(received.until(stream, 7), 30)
        await platform.claim(Claimed)
        await platform.worker()
    finally:
        doomed.kill()
        await doomed.wait()
    async with wire.resumed(http, url, received.ids[-1]) as stream:
        resumed = asyncio.create_task(received.rest(stream))
        await platform.claim(Claimed, number=1)
        file.touch()
        await soon(resumed)
    assert received.numbers == [*range(1, 11), *range(1, 21)]
    assert received.logs == [f"{number} in attempt 1" for number in range(1, 11)] + [
        f"{number} in attempt 2" for number in range(1, 21)
    ]
    assert str(received.messages).count("bench attempt 2: taken up again") == 1
    assert received.text == "counted in attempt 2"
    assert len(set(received.ids)) == len(received.ids)
    again = Received()
    place = next(at for at, event in enumerate(received.events) if "in attempt 2" in str(event.message))
    await again.resume(http, url, received.events[place].id)
    assert again.events == received.events[place + 1 :]


async def count(client: Client, platform: Platform, **options: Any) -> CallToolResult:
    """Call `count` with the official client; it waits for the platform's newest file."""
    params = CallToolRequestParams(name="count", arguments={"file": str(platform.files[-1])})
    return await client.session.send_request(CallToolRequest(params=params), CallToolResult, **options)


async def test_the_official_client_resumes_its_stream_at_another_replica(platform: Platform, front: Front) -> None:
    await platform.worker()
    other = await platform.gateway(log_key=KEY)
    for each in (front, other):
        await platform.served(each)
    numbers, logs, file = Collected[float](), list[str](), platform.file()

    async def report(progress: float, _total: float | None, _message: str | None) -> None:
        numbers.add(progress)

    async def write(params: LoggingMessageNotificationParams) -> None:
        logs.append(str(params.data))

    async with linked(front.base) as link:
        url = f"{link.url}/teams/{platform.team}/mcp/bench"
        async with Client(url, mode="legacy", logging_callback=write) as client:
            calling = asyncio.create_task(count(client, platform, progress_callback=report))
            await numbers.count(10)
            await link.cut()
            await link.mend(other.base)
            file.touch()
            result = await soon(calling)
    assert result.content[0].model_dump()["text"] == "counted in attempt 1"
    assert numbers.items == list(range(1, 21))
    assert logs == [f"{number} in attempt 1" for number in range(1, 21)]


async def test_a_new_client_resumes_with_the_token_of_the_old_one(platform: Platform, front: Front) -> None:
    await platform.worker()
    await platform.served(front)
    other = await platform.gateway("bench", log_key=KEY)
    tokens, logs, file = Collected[str](), Collected[str](), platform.file()

    async def keep(token: str) -> None:
        tokens.add(token)

    async def write(params: LoggingMessageNotificationParams) -> None:
        logs.add(str(params.data))

    async with Client(front.url(platform.team, "bench"), mode="legacy", logging_callback=write) as client:
        calling = asyncio.create_task(
            count(client, platform, metadata=ClientMessageMetadata(on_resumption_token_update=keep))
        )
        await logs.count(10)
        await tokens.count(11)  # the first came before anything else
        calling.cancel()
    file.touch()
    hints = ClientMessageMetadata(resumption_token=tokens.items[-1], on_resumption_token_update=keep)
    async with Client(other.url(platform.team, "bench"), mode="legacy", logging_callback=write) as client:
        result = await soon(count(client, platform, metadata=hints))
    assert result.content[0].model_dump()["text"] == "counted in attempt 1"
    assert logs.items == [f"{number} in attempt 1" for number in range(1, 21)]
