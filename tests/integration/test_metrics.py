"""The metrics that every service exposes while calls are made, as Prometheus reads them."""

import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from cryptography.fernet import Fernet
from deploy.observability.exposed import EVERY_PROCESS, Exposed, exposed
from mcp import Client
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.debian_tools import tool
from tests.embedded import NatsServer, RedisServer
from tests.integration.processes import Service, a_service
from tests.integration.real_parts import a_lab, until
from tests.postgres import PostgresServer
from tests.waiting import PATIENCE, soon

from pallas_contracts.ids import new_turn_id

CALLS = 6
WORKERS = ("agent-worker", "second-worker")
BEARER = "pallas_" + "0" * 49
FERNET = Fernet.generate_key().decode()


@dataclass(frozen=True)
class Shown:
    """A scrape of a process's `/metrics`."""

    text: str
    families: dict[str, Metric]

    def value(self, series: str, **labels: str) -> float:
        """The sum of all series that have these labels."""
        samples = [sample for family in self.families.values() for sample in family.samples if sample.name == series]
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


async def shown(service: Service) -> Shown:
    """Scrape a process."""
    async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
        answer = await http.get(f"{service.base}/metrics")
    families = text_string_to_metric_families(answer.text)
    return Shown(answer.text, {family.name: family for family in families})


@dataclass(frozen=True)
class Platform:
    """All services as processes, by instance."""

    services: dict[str, Service]
    team: str

    @property
    def url(self) -> str:
        """The endpoint of an agent."""
        return f"{self.services['agent-gateway'].base}/teams/{self.team}/mcp/bench"

    async def call(self) -> None:
        """Make calls, and wait until they are counted."""
        async with Client(self.url) as client:
            for _ in range(CALLS):
                await soon(client.call_tool("say", {"text": "something"}))

        async def counted() -> bool:
            return await self.together("pallas_turns_total", *WORKERS, outcome="completed") == CALLS

        await until(counted)

    async def be_refused(self) -> None:
        """Make a request with an unknown bearer."""
        async with httpx.AsyncClient(trust_env=False, headers={"authorization": f"Bearer {BEARER}"}) as http:
            assert (await http.post(self.url, json={})).status_code == 401

    async def together(self, series: str, *names: str, **labels: str) -> float:
        """The sum of a series over these processes, or over all."""
        scraped = [await shown(self.services[name]) for name in names or self.services]
        return sum(each.value(series, **labels) for each in scraped)


@pytest.fixture
async def platform(
    nats_server: NatsServer, postgres: PostgresServer, tmp_path: Path, team: str
) -> AsyncGenerator[Platform]:
    """Every service once, and a second worker."""
    folder = str(a_lab(tmp_path / "team", team))
    settings_of: dict[str, dict[str, str]] = {
        "agent-gateway": {"agent_ports": "false", "gateway_auth": "optional"},
        "agent-worker": {"teams": folder},
        "second-worker": {"teams": folder},
        "health-monitor": {"teams": folder, "probe_interval": "1"},
        "registry": {},
        "team-lifecycle": {"postgres_url": await postgres.new_database()},
        "auth-resolver": {},
        "library-search": {"postgres_url": await postgres.new_database()},
    }
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path / "redis"))
        for name in ("team-lifecycle", "auth-resolver"):
            settings_of[name] |= {"redis_url": redis.url, "fernet_keys": FERNET}
        services: dict[str, Service] = {}
        for name, settings in settings_of.items():
            module = name.replace("second", "agent").replace("-", "_")
            running = a_service(module, nats_server.url, tmp_path, name, **settings)
            services[name] = await stack.enter_async_context(running)
        for service in services.values():
            await service.ready()
        yield Platform(services, team)


def linted(text: str) -> str:
    """The complaints of promtool about an exposition; empty if it is accepted."""
    command = [str(tool("promtool")), "check", "metrics"]
    found = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
    return found.stdout + found.stderr if found.returncode else ""


def of(service: str) -> dict[str, Exposed]:
    """The documented metrics of a service."""
    return {metric.name: metric for metric in exposed() if metric.service in (service, EVERY_PROCESS)}


def own(shown: Shown) -> dict[str, Metric]:
    """The metrics of a process, without those of every process and of Python."""
    named = {name + ("_total" if family.type == "counter" else ""): family for name, family in shown.families.items()}
    return {name: family for name, family in named.items() if not name.startswith(("process_", "python_"))}


def test_promtool_rejects_a_bad_exposition() -> None:
    assert "no help text" in linted("# TYPE pallas_turns gauge\npallas_turns 1\n")


@pytest.mark.timeout(300)  # eight processes, three servers
async def test_services_expose_exactly_the_documented_metrics_and_promtool_accepts_them(platform: Platform) -> None:
    await platform.call()
    await platform.be_refused()
    for name, service in platform.services.items():
        scraped, known = await shown(service), of(name.replace("second", "agent"))
        assert linted(scraped.text) == ""
        assert own(scraped).keys() == known.keys(), name
        for metric, family in own(scraped).items():
            assert family.documentation == known[metric].meaning
            assert {label for sample in family.samples for label in sample.labels} - {"le"} <= set(known[metric].labels)
    await _says_what_happened(platform)
    await _names_no_turn_and_no_caller(platform)


async def _says_what_happened(platform: Platform) -> None:
    bench = {"team": platform.team, "agent": "bench"}
    assert await platform.together("pallas_turn_duration_seconds_count", **bench) == CALLS
    assert await platform.together("pallas_turn_queue_wait_seconds_count", **bench) == CALLS
    assert await platform.together("pallas_turn_attempts_total", **bench, attempt="first") == CALLS
    assert await platform.together("mcp_auth_failures_total", reason="token_not_found") == 1
    assert await platform.together("pallas_ready") == len(platform.services)
    assert await platform.together("pallas_worker_slots") > 0
    assert await platform.together("pallas_postgres_up") == 2
    assert await platform.together("pallas_redis_up") == 1
    for figure in ("connections", "connection_limit", "database_bytes"):
        assert await platform.together(f"pallas_postgres_{figure}") > 0
    for figure in ("memory_bytes", "connections"):
        assert await platform.together(f"pallas_redis_{figure}") > 0
    monitor = platform.services["health-monitor"]

    async def is_shown() -> bool:
        found = await shown(monitor)
        counted = found.value("pallas_stream_messages", stream="TURN_LOG") > CALLS
        hosted = found.value("pallas_agent_workers", **bench) == 2
        return counted and hosted and found.value("pallas_agent_health", **bench) == 1

    await until(is_shown, 3 * PATIENCE)  # streams are looked at every few seconds


async def _names_no_turn_and_no_caller(platform: Platform) -> None:
    """Fail if a label contains an id of a turn or of a caller."""
    for service in platform.services.values():
        families = (await shown(service)).families.values()
        values = {value for family in families for sample in family.samples for value in sample.labels.values()}
        assert [
            value for value in values if re.fullmatch(r"[0-9a-f]+", value) and len(value) == len(new_turn_id())
        ] == []
        assert values & {"127.0.0.1", BEARER} == set()
