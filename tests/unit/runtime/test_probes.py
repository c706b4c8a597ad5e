"""Probes: alive from the first moment, ready when all is there, not ready while draining."""

from importlib.metadata import version

import httpx
import pytest
from prometheus_client import Counter
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from pallas_runtime.probes import Probes, with_probes


def client_of(probes: Probes, inner: ASGIApp | None = None) -> httpx.AsyncClient:
    app = with_probes(probes, lambda: inner)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://pallas")


async def test_a_process_is_live_before_it_is_ready() -> None:
    probes = Probes()
    async with client_of(probes) as client:
        assert (await client.get("/livez")).status_code == 200
        waiting = await client.get("/readyz")
        assert (waiting.status_code, waiting.json()["missing"]) == (503, {"process": "starting"})
        probes.started = True
        assert (await client.get("/readyz")).status_code == 200


async def test_readiness_names_what_is_missing() -> None:
    probes = Probes(started=True)
    probes.checks = {"broker": lambda: "disconnected", "agents": lambda: None}
    async with client_of(probes) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["missing"]) == (503, {"broker": "disconnected"})


async def test_a_draining_process_is_live_and_not_ready() -> None:
    async with client_of(Probes(started=True, draining=True)) as client:
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["missing"]) == (503, {"process": "draining"})
        assert (await client.get("/livez")).status_code == 200


async def test_metrics_are_in_the_format_of_prometheus() -> None:
    probes = Probes()
    Counter("pallas_turns", "turns that ended", registry=probes.metrics).inc()
    async with client_of(probes) as client:
        answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "pallas_turns_total 1.0" in answer.text
    assert "process_cpu_seconds_total" in answer.text


async def test_readiness_is_exposed_as_a_metric() -> None:
    probes = Probes()
    async with client_of(probes) as client:
        assert "pallas_ready 0.0" in (await client.get("/metrics")).text
        probes.started = True
        assert "pallas_ready 1.0" in (await client.get("/metrics")).text


async def test_every_process_says_what_runs() -> None:
    async with client_of(Probes(revision="0a1b2c")) as client:
        text = (await client.get("/metrics")).text
    assert f'pallas_build_info{{revision="0a1b2c",version="{version("pallas-runtime")}"}} 1.0' in text


@pytest.mark.parametrize(("started", "status"), [(False, 503), (True, 404)])
async def test_other_paths_are_unavailable_before_the_start_and_not_found_after_it(started: bool, status: int) -> None:
    async with client_of(Probes(started=started)) as client:
        assert (await client.get("/else")).status_code == status


async def test_other_paths_are_answered_by_the_app_of_the_service() -> None:
    async with client_of(Probes(started=True), PlainTextResponse("mine")) as client:
        assert (await client.get("/else")).text == "mine"
