"""A broker, a gateway, and a process of fast-agent-worker that hosts a team folder."""

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client
from prometheus_client.parser import text_string_to_metric_families
from tests.e2e.calls import Answer, call
from tests.embedded import free_port
from tests.integration.processes import STARTS_WITHIN, Service, a_service
from tests.integration.real_parts import Front, a_gateway, until

from pallas_cli.processes.fast_agent import fast_agent_python
from pallas_cli.refused import Refused

TEAM = Path(__file__).parent / "team"


def python() -> Path:
    """The Python of the worker; the tests are skipped where its packages cannot be installed."""
    try:
        return fast_agent_python(os.environ, print)
    except Refused as refused:
        pytest.skip(f"fast-agent is not tested here: {refused}", allow_module_level=True)


@dataclass(frozen=True)
class Stage:
    """What runs. `ledger` has a line for each call of a tool of the team's server; `away` is the port of another one,
    which is not there at the start.
    """

    front: Front
    worker: Service
    url: str
    folder: Path
    ledger: Path
    team: str
    away: int

    def client(self, agent: str, era: Literal["auto", "legacy"] = "auto", **options: Any) -> Client:
        """A client of an agent."""
        return self.front.client(self.team, agent, era, **options)

    async def call(self, agent: str, message: str, **more: Any) -> Answer:
        """Call an agent."""
        async with self.client(agent) as client:
            return await call(client, agent, message, **more)

    async def counted(self, metric: str, **labels: str) -> float:
        """The sum of a metric of the worker, over all series with these labels."""
        async with httpx2.AsyncClient() as http:
            text = (await http.get(f"{self.worker.base}/metrics")).text
        samples = [it for family in text_string_to_metric_families(text) for it in family.samples]
        return sum(it.value for it in samples if it.name == metric and labels.items() <= it.labels.items())

    def called(self) -> list[str]:
        """The calls of the team's server so far."""
        return self.ledger.read_text("utf-8").splitlines() if self.ledger.exists() else []


@asynccontextmanager
async def a_stage(
    url: str, place: Path, team: str = "kottos", folder: Path = TEAM, **settings: str
) -> AsyncGenerator[Stage]:
    """A gateway and a worker that hosts a copy of a folder."""
    hosted = place / team
    shutil.copytree(folder, hosted, ignore=shutil.ignore_patterns("__pycache__"))
    away = free_port()
    async with (
        a_gateway(url) as front,
        a_worker_of(url, place, hosted, f"{team}-1", gateway_urls=front.base, away=str(away), **settings) as worker,
    ):
        stage = Stage(front, worker, url, hosted, place / "ledger.txt", team, away)
        yield stage


@asynccontextmanager
async def a_worker_of(url: str, place: Path, folder: Path, name: str, **settings: str) -> AsyncGenerator[Service]:
    """A process that hosts a folder."""
    others = {"LEDGER_FILE": str(place / "ledger.txt"), "LEDGER_PYTHON": str(python())}
    others["ANTHROPIC_URL"] = settings.pop("anthropic_url", "http://127.0.0.1:9")
    others["AWAY_PORT"] = settings.pop("away", "9")
    others["GATEWAY_URL"] = settings.get("gateway_urls", "http://127.0.0.1:9")
    given = {"teams": str(folder), **settings}
    async with a_service("fast_agent_worker", url, place, name, others, python=str(python()), **given) as worker:
        await worker.ready(2 * STARTS_WITHIN)  # it imports fast-agent, and then all programs of the folder
        yield worker


async def until_hosted(stage: Stage, agent: str) -> None:
    """Wait until the gateway knows an agent."""

    async def known() -> bool:
        async with httpx2.AsyncClient() as http:
            answer = await http.get(stage.front.url(stage.team, agent))
        return answer.status_code != 404

    await until(known)
