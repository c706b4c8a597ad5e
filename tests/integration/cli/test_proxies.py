"""Requests to this machine never go through the proxy of the environment."""

import asyncio
import os
import sys

from tests.waiting import soon


class Listening:
    """A server that keeps what it receives and closes the connection."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received.append(await reader.read(4096))
        writer.close()


async def test_a_command_for_a_local_service_ignores_the_proxy() -> None:
    lifecycle, proxy = Listening(), Listening()
    async with (
        await asyncio.start_server(lifecycle, "127.0.0.1", 0) as here,
        await asyncio.start_server(proxy, "127.0.0.1", 0) as there,
    ):
        port, proxy_port = (server.sockets[0].getsockname()[1] for server in (here, there))
        variables = {"HTTP_PROXY": f"http://127.0.0.1:{proxy_port}", "PALLAS_ADMIN_PASSWORD": "marked"}
        command = (sys.executable, "-m", "pallas_cli", "teams", "list", "--url", f"http://127.0.0.1:{port}")
        process = await asyncio.create_subprocess_exec(*command, env=os.environ | variables)
        assert await soon(process.wait(), 30) == 3
    assert len(lifecycle.received) == 1
    assert proxy.received == []
