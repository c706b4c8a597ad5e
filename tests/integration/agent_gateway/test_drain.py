"""A gateway that ends refuses new calls at once, and cuts off unfinished ones without a traceback."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
from tests.e2e import wire
from tests.embedded import free_port
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.real_parts import until
from tests.waiting import soon

from pallas_contracts.turns import Claimed

DRAIN_SECONDS = "2"


@asynccontextmanager
async def a_gateway_process(nats_url: str, port: int, **more: str) -> AsyncGenerator[Process]:
    """A gateway as `python -m agent_gateway` starts it, with `more` variables."""
    given = {"PALLAS_NATS_URL": nats_url, "PALLAS_PORT": str(port), "PALLAS_DRAIN_SECONDS": DRAIN_SECONDS, **more}
    environ = {**os.environ, **given, "PALLAS_AGENT_PORTS": "false"}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "agent_gateway", env=environ, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def status(http: httpx.AsyncClient, url: str) -> int:
    """The status of a tools/list request; 0 if nothing listens."""
    body, headers = wire.modern("tools/list", {})
    try:
        return (await http.post(url, json=body, headers=headers)).status_code
    except httpx.TransportError:
        return 0


async def test_a_draining_gateway_refuses_new_calls_and_cuts_off_the_rest_without_a_traceback(
    platform: Platform, http: httpx.AsyncClient
) -> None:
    await platform.worker()
    port = free_port()
    url = f"http://127.0.0.1:{port}/teams/{platform.team}/mcp/bench"
    async with a_gateway_process(platform.url, port, PALLAS_DRAIN_SECONDS="5") as process:

        async def answers() -> bool:
            return await status(http, url) == 200

        async def refuses() -> bool:
            return await status(http, url) == 503

        await until(answers, 60)
        params = {"name": "wait", "arguments": {"file": str(platform.file())}}
        session = await wire.shake_hands(http, url)
        bodies = [wire.modern("tools/call", params), wire.legacy("tools/call", params, session)]
        with_progress = [{**params, "_meta": {"progressToken": "t"}}]
        bodies += [wire.modern("tools/call", each) for each in with_progress]
        bodies += [wire.legacy("tools/call", each, session, request_id=2) for each in with_progress]
        calls = [asyncio.create_task(http.post(url, json=body, headers=headers)) for body, headers in bodies]
        await platform.claim(Claimed, number=len(calls) - 1)
        process.send_signal(signal.SIGTERM)
        await until(refuses)
        _, errors = await soon(process.communicate())
        answered = await asyncio.gather(*calls)
    assert process.returncode == 0
    assert b"cut off" in errors
    assert b"Traceback" not in errors
    assert b'"level": "error"' not in errors
    assert {answer.status_code for answer in answered} == {200, 503}
    assert not platform.cancels
