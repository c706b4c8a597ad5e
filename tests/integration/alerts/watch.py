"""A real Prometheus and a real Alertmanager with the project's files: what is scraped, and who is told, is the test's.

Unless they are to be those of production, times are shorter: rules are evaluated twice a second, alerts fire at once,
and a page waits three seconds for its cause.
"""

import asyncio
import re
from asyncio.subprocess import DEVNULL, STDOUT
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from tests.contract.test_metrics import RULES
from tests.contract.tree import ROOT
from tests.debian_tools import tool
from tests.deployment.services import SERVICES
from tests.embedded import free_port
from tests.integration.real_parts import until

from pallas_runtime.http.listener import bind, listening

FOLDER = ROOT / "deploy" / "observability"
WAIT = 3.0
WATCHED = 'pallas_broker_up{server="n0"} 1\n'
"""What the monitor tells from the start. Without it, an alert says that nobody watches the broker."""

_WITHIN = 90.0
_TEMPLATES = b"/usr/share/prometheus/alertmanager"
_FOR = re.compile(r"^ +for: .*\n", re.MULTILINE)


@dataclass
class World:
    """`exposed` are the metrics of each job, unless `source` returns them (None: the job does not answer). `told` are
    the notifications by receiver. Addresses are base URLs."""

    prometheus: str
    alertmanager: str
    http: httpx.AsyncClient
    source: Callable[[str], Awaitable[str | None]] | None = None
    exposed: dict[str, str] = field(default_factory=lambda: {"health-monitor": WATCHED})
    told: defaultdict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict[str, list[Any]](list))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve `/metrics/JOB` to Prometheus, and take notifications at `/RECEIVER`."""
        name = scope["path"].rpartition("/")[2]
        if scope["method"] == "POST":
            self.told[name].append(await Request(scope, receive).json())
        text = await self.source(name) if self.source else self.exposed.get(name, "")
        await PlainTextResponse(text or "", 200 if text is not None else 503)(scope, receive, send)

    async def firing(self) -> set[str]:
        """The alerts that fire at Prometheus."""
        answer = await self.http.get(f"{self.prometheus}/api/v1/alerts")
        return {it["labels"]["alertname"] for it in answer.json()["data"]["alerts"] if it["state"] == "firing"}

    async def states(self, **labels: str) -> dict[str, str]:
        """The alerts with these labels at Alertmanager: `active`, or `suppressed` by another one."""
        return {it["labels"]["alertname"]: it["status"]["state"] for it in await self._alerts(labels)}

    async def suppressed(self, **labels: str) -> list[dict[str, str]]:
        """The labels of the alerts that another one silences."""
        found = await self._alerts(labels)
        return [it["labels"] for it in found if it["status"]["state"] == "suppressed"]

    async def _alerts(self, labels: dict[str, str]) -> list[Any]:
        filters = [f'{name}="{value}"' for name, value in labels.items()]
        return (await self.http.get(f"{self.alertmanager}/api/v2/alerts", params={"filter": filters})).json()

    async def send(self, alerts: Iterable[Mapping[str, str]]) -> None:
        """Send alerts as Prometheus would."""
        body = [{"labels": dict(labels)} for labels in alerts]
        (await self.http.post(f"{self.alertmanager}/api/v2/alerts", json=body)).raise_for_status()


@asynccontextmanager
async def watching(
    folder: Path, source: Callable[[str], Awaitable[str | None]] | None = None, *, quick: bool = True
) -> AsyncGenerator[World]:
    """Both servers, and a target for each service. Without `quick`, times are those of production."""
    listener = bind("127.0.0.1", 0)
    here, ports = f"127.0.0.1:{listener.getsockname()[1]}", (free_port(), free_port())
    addresses = [f"http://127.0.0.1:{port}" for port in ports]
    configs = _prometheus(folder, here, ports[1], quick), _alertmanager(folder, here, quick)
    listen = [f"--web.listen-address=127.0.0.1:{port}" for port in ports]
    prometheus = [tool("prometheus"), f"--config.file={configs[0]}", "--storage.tsdb.path=tsdb", listen[0]]
    prometheus.append("--rules.alert.resend-delay=1s")
    alertmanager = [_here(tool("prometheus-alertmanager"), folder), f"--config.file={configs[1]}", listen[1]]
    alertmanager += ["--storage.path=notified", "--cluster.listen-address="]
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:
        world = World(addresses[0], addresses[1], http, source)

        async def ready(address: str) -> bool:
            try:
                return (await http.get(f"{address}/-/ready")).is_success
            except httpx.TransportError:
                return False

        async def scraped() -> bool:
            """Whether Prometheus has seen every job. Before that, all seem to be down."""
            if not await ready(addresses[0]):
                return False
            answer = await http.get(f"{addresses[0]}/api/v1/query", params={"query": "count(up == 1)"})
            [up] = [int(each["value"][1]) for each in answer.json()["data"]["result"]] or [0]
            return up == len(SERVICES) and "PallasGatewayDown" not in await world.firing()

        async with listening(world, listener, drain_seconds=1), _running(prometheus, folder / "prometheus.log"):
            await until(scraped, _WITHIN)
            async with _running(alertmanager, folder / "alertmanager.log"):
                await until(lambda: ready(addresses[1]))
                yield world


@asynccontextmanager
async def _running(command: Sequence[str | Path], log: Path) -> AsyncGenerator[None]:
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=log.parent, stdin=DEVNULL, stdout=output, stderr=STDOUT
        )
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _here(program: Path, folder: Path) -> Path:
    """A copy that looks for its templates where it runs, not in the system, where the package would put them.

    No notification of the tests uses a template, so they are empty.
    """
    copy = folder / program.name
    copy.write_bytes(program.read_bytes().replace(_TEMPLATES, b"./" * (len(_TEMPLATES) // 2)))
    copy.chmod(0o755)
    for name in ("default.tmpl", "email.tmpl"):
        (folder / name).touch()
    return copy


def _prometheus(folder: Path, target: str, alertmanager: int, quick: bool) -> Path:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    if quick:
        config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [str(folder / path.name) for path in RULES]
    config["alerting"]["alertmanagers"] = [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]
    config["scrape_configs"] = [
        {"job_name": job, "metrics_path": f"/metrics/{job}", "static_configs": [{"targets": [target]}]}
        for job in SERVICES
    ]
    for path in RULES:
        text = path.read_text("utf-8")
        (folder / path.name).write_text(_FOR.sub("", text) if quick else text, "utf-8")
    return _written(folder / "prometheus.yml", config)


def _alertmanager(folder: Path, told: str, quick: bool) -> Path:
    config = yaml.safe_load((FOLDER / "alertmanager.yml").read_text("utf-8"))
    if quick:
        config["route"] |= {"group_wait": f"{WAIT:g}s", "group_interval": "1s"}
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": f"http://{told}/{receiver['name']}", "send_resolved": False}]
    return _written(folder / "alertmanager.yml", config)


def _written(path: Path, config: Any) -> Path:
    path.write_text(yaml.safe_dump(config), "utf-8")
    return path
