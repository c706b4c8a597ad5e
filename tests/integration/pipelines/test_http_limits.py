"""Limits of the HTTP API: rates by agent, sizes, headers that are not taken, and the end of a replica."""

import asyncio
import logging
from collections import Counter
from functools import partial

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.pipelines.api import ADD, Api, api_of
from tests.integration.pipelines.lab import Lab, gather
from tests.integration.real_parts import until
from tests.requirements import requirement

AGENT, REQUEST = "X-Constellation-Agent", "X-Constellation-Request-ID"
BURST = 5


@requirement("C-arch-7")
async def test_an_agent_that_sends_too_much_takes_nothing_from_others(lab: Lab) -> None:
    replica = await lab.replica(pipeline_rate="1", pipeline_burst=str(BURST))
    async with api_of(replica) as api:

        async def ask(agent: str) -> int:
            found = await api.http.get("/namespaces/stdlib.math", headers={AGENT: agent})
            if found.status_code == 429:
                assert found.json()["error"] == "RateLimitExceeded"
                assert int(found.headers["retry-after"]) >= 1
            return found.status_code

        greedy = [asyncio.create_task(ask("tests:greedy")) for _ in range(100)]
        polite = await gather(*(ask(f"tests:polite-{number}") for number in range(49) for _ in range(2)))
        assert Counter(polite) == {200: 98}
        assert BURST <= Counter(await gather(*greedy))[200] <= BURST + 1  # one may have run into it meanwhile

        # All agents of one address have the rate of fifty, however many there seem to be.
        invented = await gather(*(ask(f"tests:invented-{number}") for number in range(40 * BURST)))
        assert 429 in invented


@requirement("C-http-3", "C-arch-6")
async def test_every_request_is_told_with_its_agent_and_its_id(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    replica = await lab.replica()
    label = {AGENT: "claude-code:alice@acme.com", REQUEST: "mcp-req-0123456789ab"}
    async with api_of(replica) as api:
        caplog.clear()
        answer = await api.http.post("/validate", json={"source": ADD}, headers=label)
        assert answer.headers["x-request-id"] == label[REQUEST]
        missing = await api.http.get("/pipelines/none", headers=label)
        assert missing.json() == {
            "error": "NotFound",
            "message": "Pipeline 'none' not found",
            "requestId": label[REQUEST],
        }
        ran = await api.http.post("/run", json={"source": ADD, "inputs": {"a": 1, "b": 2}}, headers=label)
        assert ran.headers["x-request-id"] == label[REQUEST]
        lines = [record for record in caplog.records if record.message == "request"]
        told = [(record.__dict__["route"], record.__dict__["status"]) for record in lines]
        assert told == [("/validate", 200), ("/pipelines/{ref}", 404), ("/run", 200)]

        for name in (AGENT, REQUEST):
            for value in ("", "x" * 257, "two\tparts", "ä"):
                refused = await api.http.get("/modules", headers=[(name.encode(), value.encode())])
                assert refused.status_code == 400, value
                assert refused.json()["error"] == "InvalidHeader"
                assert name in refused.json()["message"]
        refused = await api.http.get("/modules", headers=[(AGENT, "one"), (AGENT, "two")])
        assert refused.status_code == 400
        other = await api.http.get("/none", headers={"X-Request-ID": "of a proxy"})
        assert other.json()["requestId"] == other.headers["x-request-id"] == "of a proxy"

        text = (await api.http.get("/metrics", headers={"accept": "text/plain"})).text
        counted = {family.name: family for family in text_string_to_metric_families(text)}["pallas_pipeline_requests"]
        series = {(each.labels["client"][:12], each.labels["code"]): each.value for each in counted.samples}
        assert (series["claude-code-", "2xx"], series["claude-code-", "4xx"]) == (2, 1)
        assert "alice" not in text
        shown = (await api.get("/metrics"))["metrics"]["pallas_pipeline_requests_total"]
        assert sum(each["value"] for each in shown) == sum(series.values())


async def test_what_is_too_large_or_no_request_is_refused(lab: Lab) -> None:
    replica = await lab.replica()
    async with api_of(replica) as api:
        large = await api.http.post("/run", content=b"{" + b" " * (10 * 1024 * 1024))
        assert (large.status_code, large.json()["error"]) == (413, "PayloadTooLarge")
        for body in (b"{", b"[]", b'{"source": 1}', b'{"source": "", "source": ""}', b"{}"):
            refused = await api.http.post("/validate", content=body)
            assert (refused.status_code, refused.json()["error"]) == (400, "InvalidRequest"), body
        assert (await api.post("/validate", {"source": "x" * 50_001}, 400))["message"].startswith("source: ")
        assert (await api.asks("PUT", "/run", {}, 405))["error"] == "MethodNotAllowed"
        assert (await api.get("/pipelines/user:alice/x", 404))["error"] == "NotFound"
        assert (await api.get("/history?limit=x", 400))["error"] == "InvalidRequest"
        assert (await api.get("/history?cursor=!", 400))["error"] == "InvalidRequest"
        foreign = await api.http.get("/modules", headers={"host": "attacker.example"})
        assert (foreign.status_code, foreign.json()["error"]) == (421, "Forbidden")
        page = await api.http.get("/modules", headers={"origin": "https://attacker.example"})
        assert (page.status_code, page.json()["error"]) == (403, "Forbidden")


async def is_refused(api: Api, path: str) -> bool:
    async with api.http.stream("GET", path) as answer:
        return answer.status_code == 429


async def test_a_replica_that_stops_answers_what_is_under_way_and_refuses_the_rest(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.http.executions.MOST_STREAMS", 1)
    called, goes_on = asyncio.Event(), asyncio.Event()

    async def wait(arguments: dict[str, int]) -> int:
        called.set()
        await goes_on.wait()
        return arguments["number"]

    lab.counted.tool("wait", wait)
    first, second = await lab.replica(), await lab.replica()
    await lab.host()
    for replica in (first, second):
        await lab.known(replica)
    source = f"in x: Int\nsaid = {lab.counted.namespace}.wait(x)\nout said"
    async with api_of(first) as api, api_of(second) as other:
        body = {"source": source, "inputs": {"x": 7}}
        running = asyncio.create_task(api.post("/run", body))
        await called.wait()
        first.process.probes.draining = True
        draining = asyncio.create_task(first.service.drain())
        assert (await api.get("/modules", 503))["error"] == "ShuttingDown"
        assert (await api.get("/health", 503))["status"] == "draining"
        assert (await api.get("/health/ready", 503))["status"] == "not_ready"
        assert (await other.get("/health/ready"))["status"] == "ready"
        goes_on.set()
        assert (await running)["outputs"] == {"said": "7"}
        await draining

        # What is cut off goes on, and can be read elsewhere.
        third = await lab.replica()
        called.clear()
        goes_on.clear()
        async with api_of(third) as last:
            await lab.known(third)
            async with last.http.stream("POST", "/run", json=body) as answer:
                execution = answer.headers["X-Constellation-Execution-ID"]
                events = asyncio.create_task(other.events(execution))
                await called.wait()
                await until(partial(is_refused, other, f"/executions/{execution}/events"))
                draining = asyncio.create_task(third.service.drain())
                await last.get("/modules", 503)
                draining.cancel()
                assert await answer.aread() == b""
            goes_on.set()
            assert (await events)[-1][1]["status"] == "completed"
