"""Worker processes as a Deployment's pods: workers are started, or ended by SIGTERM, until there are as many as wanted.

A worker that got SIGTERM is no replica any more, but goes on until its turns are over, as its pod would.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from tests.embedded import free_port

_LOOK_AGAIN = 0.1


@dataclass
class Pod:
    """A worker process. `ready` once it pulls turns."""

    process: Process
    port: int
    ready: bool = False


@dataclass
class Workers:
    """The pods of a Deployment. `environ` is the environment of each."""

    environ: Mapping[str, str]
    log: Path
    http: httpx.AsyncClient
    replicas: list[Pod] = field(default_factory=list[Pod])
    ending: list[Pod] = field(default_factory=list[Pod])
    failed: list[int] = field(default_factory=list[int])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def ready(self) -> int:
        """How many pull turns."""
        return sum(pod.ready for pod in self.replicas)

    async def scale(self, wanted: int) -> None:
        """Start or end workers; those that are not ready yet end first."""
        while len(self.replicas) > wanted:
            pod = min(self.replicas, key=lambda pod: pod.ready)
            self.replicas.remove(pod)
            self.ending.append(pod)
            pod.process.send_signal(signal.SIGTERM)
        while len(self.replicas) < wanted:
            self.replicas.append(pod := await self._start())
            for work in (self._until_ready(pod), self._until_over(pod)):
                self._tasks.add(task := asyncio.create_task(work))
                task.add_done_callback(self._tasks.discard)

    async def _start(self) -> Pod:
        port = free_port()
        environ = {**os.environ, **self.environ, "PALLAS_PORT": str(port)}
        with self.log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "agent_worker", env=environ, stdin=DEVNULL, stdout=DEVNULL, stderr=errors
            )
        return Pod(process, port)

    async def _until_ready(self, pod: Pod) -> None:
        while not pod.ready and pod.process.returncode is None:
            with suppress(httpx.TransportError):
                answer = await self.http.get(f"http://127.0.0.1:{pod.port}/readyz")
                pod.ready = answer.status_code == 200
            await asyncio.sleep(_LOOK_AGAIN)

    async def _until_over(self, pod: Pod) -> None:
        code = await pod.process.wait()
        if code != 0 or pod not in self.ending:
            self.failed.append(code)
        for pods in (self.replicas, self.ending):
            if pod in pods:
                pods.remove(pod)

    async def close(self) -> None:
        """Kill what is left."""
        for pod in (*self.replicas, *self.ending):
            with suppress(ProcessLookupError):
                pod.process.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def workers(environ: Mapping[str, str], log: Path, http: httpx.AsyncClient) -> AsyncGenerator[Workers]:
    """No workers yet; none are left behind."""
    pods = Workers(environ, log, http)
    try:
        yield pods
    finally:
        await pods.close()
