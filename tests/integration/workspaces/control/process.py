"""A process of the service, as it runs in production, to be killed and started again on its port."""

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import httpx
from tests import forks
from tests.embedded import free_port
from tests.integration.real_parts import until
from tests.integration.workspaces.lab import API, PASSWORD, client_of, environment

from pallas_cli.processes.child import Forked


class Killable:
    """The process. Use it as an async context manager. `http` is a client with an account."""

    def __init__(self, settings: Mapping[str, str], log: Path) -> None:
        self._log = log
        port = free_port()
        self._environ = {**os.environ, **environment(**settings), "PALLAS_PORT": str(port)}
        self.http = client_of(f"http://127.0.0.1:{port}", ("admin", PASSWORD))
        self._process: asyncio.subprocess.Process | Forked | None = None

    async def start(self) -> None:
        """Start, and wait until it answers."""
        with self._log.open("ab") as output:
            self._process = await forks.start_async("workspaces", env=self._environ, output=output)

        async def answers() -> bool:
            with suppress(httpx.TransportError):
                return (await self.http.get(f"{API}/settings")).status_code == 200
            return False

        await until(answers, within=60)

    async def end(self, number: signal.Signals) -> None:
        """Send a signal, and wait for the end."""
        assert self._process is not None
        self._process.send_signal(number)
        await self._process.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            await self.end(signal.SIGKILL)
        await self.http.aclose()
