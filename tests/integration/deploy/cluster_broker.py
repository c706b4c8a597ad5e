"""The brokers of `deploy/k8s` as their pods run them: arguments, volumes and probes, at addresses of this machine."""

import asyncio
import os
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.deployment.kubernetes import container, of_kind, pods
from tests.deployment.secrets import DOCUMENTS, Files, broker_files, made_by
from tests.deployment.services import DEMO
from tests.embedded import free_port, nats_binary
from tests.integration.deploy.servers import moved, running
from tests.integration.real_parts import until

_STARTS_WITHIN = 60.0
_BINARY = nats_binary()
PATH = {"PATH": f"{_BINARY and _BINARY.parent}:{os.environ['PATH']}", "RELOAD_SECONDS": "0.1"}
"""Where pods find `nats-server`, and how often they look for changed files here."""
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


@dataclass(frozen=True)
class Pod:
    """One running broker."""

    overlay: str
    folder: Path
    here: Mapping[str, str]
    port: int
    monitor: int
    process: Process

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    async def succeeds(self, probe: str) -> bool:
        """Carry out one of its probes."""
        path = container(pods(self.overlay)["nats"])[probe]["httpGet"]["path"]
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=2) as http:
            with suppress(httpx.TransportError):
                return (await http.get(f"http://127.0.0.1:{self.monitor}{path}")).is_success
        return False

    async def is_healthy(self) -> bool:
        """Whether all of its probes succeed."""
        return all([await self.succeeds(probe) for probe in _PROBES])

    async def monitored(self, page: str) -> Any:
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=2) as http:
            return (await http.get(f"http://127.0.0.1:{self.monitor}/{page}")).json()

    def mount(self, secrets: dict[str, Files]) -> None:
        """Replace the files that have changed, as kubelet does."""
        _lay_out(self.overlay, self.folder, self.here, secrets)

    async def end(self) -> float:
        """End it as Kubernetes does: the command before, then SIGTERM. Returns how many seconds it took."""
        begin = asyncio.get_running_loop().time()
        command = container(pods(self.overlay)["nats"])["lifecycle"]["preStop"]["exec"]["command"]
        before = await asyncio.create_subprocess_exec(*(moved(word, self.here) for word in command), env=PATH)
        assert await before.wait() == 0
        with suppress(ProcessLookupError):  # it has ended by itself
            self.process.terminate()
        assert await self.process.wait() == 0
        return asyncio.get_running_loop().time() - begin


def secrets_of(checkout: Path, team: Path = DEMO) -> dict[str, Files]:
    """The Secrets and users, made by the documented commands."""
    return made_by(DOCUMENTS[0], checkout, team)


@asynccontextmanager
async def brokers(overlay: str, folder: Path, secrets: dict[str, Files]) -> AsyncGenerator[list[Pod]]:
    """All brokers of an overlay; they are healthy."""
    count = of_kind(overlay, "StatefulSet")["nats"]["spec"]["replicas"]
    routes = {f"nats-{number}": free_port() for number in range(count)}
    async with AsyncExitStack() as stack:
        started: list[Pod] = []
        for name, port in routes.items():
            cluster = {f"{other}.nats-servers:6222": f"127.0.0.1:{at}" for other, at in routes.items()}
            own = folder / name
            places = {"/etc/nats": str(own), "/var/run/nats": str(own), "/data": str(own / "data")}
            places |= {'lame_duck_grace_period: "5s"': 'lame_duck_grace_period: "1s"'}
            here = {**places, **cluster, "0.0.0.0:6222": f"127.0.0.1:{port}"}
            started.append(await stack.enter_async_context(_started(overlay, folder / name, here, secrets)))
        for pod in started:
            await until(pod.is_healthy, _STARTS_WITHIN)
        yield started


@asynccontextmanager
async def _started(
    overlay: str, folder: Path, here: Mapping[str, str], secrets: dict[str, Files]
) -> AsyncGenerator[Pod]:
    binary, port, monitor = nats_binary(), free_port(), free_port()
    assert binary is not None
    _lay_out(overlay, folder, here, secrets)
    words = [moved(word, here) for word in container(pods(overlay)["nats"])["args"]]
    place = ("--addr", "127.0.0.1", "--port", str(port), "--http_port", str(monitor))
    variables_of = {"SERVER_NAME": folder.name}
    [beside] = pods(overlay)["nats"]["spec"]["initContainers"]
    reloading = [moved(word, here) for word in beside["command"]]
    async with (
        running([str(binary), *words, *place], variables_of, folder / "nats.log") as process,
        running(reloading, PATH, folder / "reload.log"),
    ):
        yield Pod(overlay, folder, here, port, monitor, process)


def _lay_out(overlay: str, folder: Path, here: Mapping[str, str], secrets: dict[str, Files]) -> None:
    for path, content in broker_files(overlay, secrets).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(moved(content.decode(), here), "utf-8")
