"""Gateways and workers that die under a stream of the handshake era, and the official client that takes it up."""

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
from tests.integration.agent_gateway.streams import KEY, Heard, counting
from tests.integration.agent_gateway.test_drain import a_gateway_process, status
from tests.integration.real_parts import Front, a_lab, until
from tests.link import linked
from tests.waiting import Collected, eventually, soon

from pallas_contracts.turns import Claimed


@pytest.fixture
async def front(platform: Platform) -> Front:
    """The replica that stays."""
    return await platform.gateway(log_key=KEY)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_stream_outlives_the_gateways_that_it_was_on(
    platform: Platform, front: Front, http: httpx.AsyncClient, number: signal.Signals
) -> None:
    await platform.worker()
    await platform.served(front)
    heard, file, ports = Heard(), platform.file(), (free_port(), free_port())
    urls = [f"http://127.0.0.1:{port}/teams/{platform.team}/mcp/bench" for port in ports]
    async with (
        a_gateway_process(platform.url, ports[0], PALLAS_LOG_KEY=KEY) as first,
        a_gateway_process(platform.url, ports[1], PALLAS_LOG_KEY=KEY) as second,
    ):

        async def both_answer() -> bool:
            return {await status(http, url) for url in urls} == {200}

        await until(both_answer, 60)
        async with counting(http, urls[0], file) as stream:
            await soon(heard.until(stream, 10))
            first.send_signal(number)
            await ended(heard, stream)
        async with wire.resumed(http, urls[1], heard.ids[4]) as stream:
            heard.events = heard.events[:5]
            await soon(heard.until(stream, 10))
            second.send_signal(number)
            await ended(heard, stream)
    file.touch()
    await heard.resume(http, front.url(platform.team, "bench"))
    heard.is_whole()


async def ended(heard: Heard, stream: wire.Stream) -> None:
    """Wait until a stream has broken or ended."""
    with suppress(httpx.TransportError):
        await soon(heard.rest(stream))


async def test_an_attempt_that_was_superseded_meanwhile_is_told_up_to_its_end_and_the_next_one_whole(
    platform: Platform, front: Front, http: httpx.AsyncClient
) -> None:
    folder = a_lab(platform.folder, platform.team)
    environ = {**os.environ, "PALLAS_NATS_URL": platform.url, "PALLAS_TEAMS": str(folder)}
    doomed = await asyncio.create_subprocess_exec(sys.executable, "-m", "agent_worker", env=environ, stderr=DEVNULL)
    heard, file, url = Heard(), platform.file(), front.url(platform.team, "bench")
    try:
        await eventually(lambda: not isinstance(front.gateway.http.endpoints.find(platform.team, "bench"), str), 60)
        async with counting(http, url, file) as stream:
            await soon(heard.until(stream, 7), 30)
        await platform.claim(Claimed)
        await platform.worker()
    finally:
        doomed.kill()
        await doomed.wait()
    async with wire.resumed(http, url, heard.ids[-1]) as stream:
        resumed = asyncio.create_task(heard.rest(stream))
        await platform.claim(Claimed, number=1)
        file.touch()
        await soon(resumed)
    assert heard.numbers == [*range(1, 11), *range(1, 21)]
    assert heard.logs == [f"{number} in attempt 1" for number in range(1, 11)] + [
        f"{number} in attempt 2" for number in range(1, 21)
    ]
    assert str(heard.messages).count("bench attempt 2: taken up again") == 1
    assert heard.text == "counted in attempt 2"
    assert len(set(heard.ids)) == len(heard.ids)
    again = Heard()
    place = next(at for at, event in enumerate(heard.events) if "in attempt 2" in str(event.message))
    await again.resume(http, url, heard.events[place].id)
    assert again.events == heard.events[place + 1 :]


async def count(client: Client, platform: Platform, **options: Any) -> CallToolResult:
    """Call `count` with the official client; it waits for the platform's newest file."""
    params = CallToolRequestParams(name="count", arguments={"file": str(platform.files[-1])})
    return await client.session.send_request(CallToolRequest(params=params), CallToolResult, **options)


async def test_the_official_client_takes_up_its_stream_by_itself_at_another_replica(
    platform: Platform, front: Front
) -> None:
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


async def test_a_new_client_goes_on_with_the_token_that_the_old_one_had(platform: Platform, front: Front) -> None:
    await platform.worker()
    await platform.served(front)
    other = await platform.gateway(log_key=KEY)
    await platform.served(other)
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
