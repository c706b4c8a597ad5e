"""Whatever proxy the environment names, nothing that is meant for this machine goes there."""

import asyncio
import os
import sys

from tests.waiting import soon


class Listening:
    """Somebody who hears what he is told and hangs up."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append(await reader.read(4096))
        writer.close()


async def test_the_admin_s_password_stays_on_this_machine() -> None:
    lifecycle, proxy = Listening(), Listening()
    async with (
        await asyncio.start_server(lifecycle, "127.0.0.1", 0) as here,
        await asyncio.start_server(proxy, "127.0.0.1", 0) as there,
    ):
        port, proxy_port = (server.sockets[0].getsockname()[1] for server in (here, there))
        told = {"HTTP_PROXY": f"http://127.0.0.1:{proxy_port}", "PALLAS_ADMIN_PASSWORD": "marked"}
        command = (sys.executable, "-m", "pallas_cli", "teams", "list", "--url", f"http://127.0.0.1:{port}")
        process = await asyncio.create_subprocess_exec(*command, env=os.environ | told)
        assert await soon(process.wait(), 30) == 1
    assert len(lifecycle.heard) == 1
    assert proxy.heard == []
