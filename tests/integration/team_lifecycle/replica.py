"""Processes of the service, as they run in production."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
from tests import forks
from tests.embedded import free_port
from tests.integration.real_parts import until

from pallas_cli.processes.child import Forked


class Replica:
    """One process of the service, to kill and to start again on its port."""

    def __init__(self, environ: dict[str, str], log: Path) -> None:
        self._environ = {**os.environ, **environ, "PALLAS_PORT": str(port := free_port())}
        self._log = log
        self.base = f"http://127.0.0.1:{port}"
        self.process: asyncio.subprocess.Process | Forked | None = None

    async def start(self) -> None:
        """Start, and wait until it is ready."""
        with self._log.open("ab") as output:
            self.process = await forks.start_async("team_lifecycle", env=self._environ, output=output)

        async with httpx.AsyncClient(base_url=self.base, trust_env=False, verify=False) as client:

            async def ready() -> bool:
                with suppress(httpx.TransportError):
                    return (await client.get("/openapi.json")).status_code == 200
                return False

            await until(ready, within=60)

    async def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end."""
        assert self.process is not None
        self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def replicas(count: int, environ: dict[str, str], folder: Path) -> AsyncGenerator[list[Replica]]:
    """Processes of the service that are running."""
    running = [Replica(environ, folder / f"replica-{number}.log") for number in range(count)]
    await asyncio.gather(*(one.start() for one in running))
    try:
        yield running
    finally:
        for one in running:
            if one.process is not None and one.process.returncode is None:
                await one.end(signal.SIGKILL)
