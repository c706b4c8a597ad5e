"""Services as processes, which a test may stop, pause and kill. Leaving the block ends them."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests import forks
from tests.embedded import free_port
from tests.integration.real_parts import until

from pallas_cli.processes.child import Forked

STARTS_WITHIN = 60.0


@dataclass
class Service:
    """A process of a service, with the name `instance`."""

    instance: str
    port: int
    log: Path
    process: Process | Forked

    @property
    def base(self) -> str:
        """The URL on which it listens."""
        return f"http://127.0.0.1:{self.port}"

    def send(self, number: signal.Signals) -> None:
        """Send it a signal. It is paused, and goes on, with all processes that it has started."""
        if number in (signal.SIGSTOP, signal.SIGCONT):
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    async def missing(self) -> dict[str, str] | None:
        """What it misses to be ready: empty if it is ready, None if it does not answer."""
        async with _client() as http:
            return await self._missing(http)

    async def _missing(self, http: httpx.AsyncClient) -> dict[str, str] | None:
        try:
            answer = await http.get(f"{self.base}/readyz")
        except httpx.TransportError:
            return None
        return answer.json().get("missing", {})

    async def ready(self, within: float = STARTS_WITHIN) -> None:
        async def look() -> bool:
            assert self.process.returncode is None, self.log.read_text("utf-8")
            return await self._missing(http) == {}

        async with _client() as http:
            await until(look, within)

    async def not_ready(self, within: float = STARTS_WITHIN) -> None:
        """Wait until it reports that it is not ready."""

        async def look() -> bool:
            return bool(await self.missing())

        await until(look, within)


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, verify=False, timeout=2)


@asynccontextmanager
async def a_service(
    module: str,
    url: str,
    folder: Path,
    instance: str,
    others: Mapping[str, str] | None = None,
    /,
    python: str = sys.executable,
    **settings: str,
) -> AsyncGenerator[Service]:
    """A process of the service in `module`. `settings` are its variables without their prefix, `others` have none.

    It listens on a free port, or on the one in `settings`. `python` is that of another environment.
    """
    port, log = int(settings.get("port", free_port())), folder / f"{instance}.log"
    given = {"nats_url": url, "port": str(port), "instance": instance, "drain_seconds": "2", **settings}
    environ = {**os.environ, **(others or {}), **{f"PALLAS_{name.upper()}": value for name, value in given.items()}}
    with log.open("wb") as output:
        if python == sys.executable:
            process = await forks.start_async(module, env=environ, output=output)
        else:
            process = await asyncio.create_subprocess_exec(
                python,
                "-m",
                module,
                env=environ,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=output,
                start_new_session=True,
            )
    try:
        yield Service(instance, port, log, process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # this ends paused processes, too
        await process.wait()
