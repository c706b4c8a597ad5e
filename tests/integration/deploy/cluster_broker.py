"""The brokers of `deploy/k8s` as their pods run them: arguments, volumes and probes, at addresses of this machine."""

import signal
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.deployment.kubernetes import container, of_kind, pods
from tests.deployment.secrets import DOCUMENTS, Files, broker_files, made_by
from tests.embedded import free_port, nats_binary
from tests.integration.deploy.servers import moved, running
from tests.integration.real_parts import until

_STARTS_WITHIN = 60.0
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
        """A page of its monitoring."""
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=2) as http:
            return (await http.get(f"http://127.0.0.1:{self.monitor}/{page}")).json()

    def reload(self, secrets: dict[str, Files]) -> None:
        """Give it the Secrets that have changed, and tell it so."""
        _lay_out(self.overlay, self.folder, self.here, secrets)
        self.process.send_signal(signal.SIGHUP)


def secrets_of(checkout: Path) -> dict[str, Files]:
    """The Secrets, made by the documented commands."""
    return made_by(DOCUMENTS[0], checkout)


@asynccontextmanager
async def brokers(overlay: str, folder: Path, secrets: dict[str, Files]) -> AsyncGenerator[list[Pod]]:
    """All brokers of an overlay; they are healthy."""
    count = of_kind(overlay, "StatefulSet")["nats"]["spec"]["replicas"]
    routes = {f"nats-{number}": free_port() for number in range(count)}
    async with AsyncExitStack() as stack:
        started: list[Pod] = []
        for name, port in routes.items():
            cluster = {f"{other}.nats-servers:6222": f"127.0.0.1:{at}" for other, at in routes.items()}
            places = {"/etc/nats/": f"{folder / name}/", "/data": str(folder / name / "data")}
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
    async with running([str(binary), *words, *place], variables_of, folder / "nats.log") as process:
        yield Pod(overlay, folder, here, port, monitor, process)


def _lay_out(overlay: str, folder: Path, here: Mapping[str, str], secrets: dict[str, Files]) -> None:
    for path, content in broker_files(overlay, secrets).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(moved(content.decode(), here), "utf-8")
