"""The fault switches: each lets the stand-in fail in its way, and the workspaces go on."""

import httpx
import pytest
from tests.integration.coder.test_coder import APP, create
from tests.waiting import eventually

from pallas_demo.coder import CoderStandIn, Fault, StandInSettings

PATH = "/api/v2/workspaces"


@pytest.mark.parametrize(
    ("mode", "error"), [("refuse", httpx.ConnectError), ("reset", httpx.ReadError), ("hang", httpx.ReadTimeout)]
)
async def test_no_answer(coder: CoderStandIn, client: httpx.AsyncClient, mode: str, error: type[Exception]) -> None:
    await create(client, "papi", "work 0.3 s")
    await coder.fault(Fault.model_validate({"mode": mode}))
    async with httpx.AsyncClient(headers=client.headers, trust_env=False, timeout=0.3) as new:
        with pytest.raises(error):
            await new.get(coder.url + PATH)
    await coder.agent("papi").until("stable")
    await coder.heal()
    assert (await client.get(PATH)).json()["count"] == 1


@pytest.mark.parametrize(("mode", "status", "kind"), [
    ("bad_gateway", 502, "text/html"), ("html", 200, "text/html"), ("expired", 401, "application/json"),
])  # fmt: skip
async def test_wrong_answers(coder: CoderStandIn, client: httpx.AsyncClient, mode: str, status: int, kind: str) -> None:
    await coder.fault(Fault.model_validate({"mode": mode, "path": "/api/v2/workspaces", "times": 2}))
    for _ in range(2):
        answer = await client.get(PATH)
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (status, kind)
        assert (await client.get("/api/v2/templates")).status_code == 200
    assert (await client.get(PATH)).status_code == 200


async def test_a_message_is_typed_and_its_answer_lost(coder: CoderStandIn, client: httpx.AsyncClient) -> None:
    await create(client, "papi", "say hello")
    papi = coder.agent("papi")
    await papi.until("stable")
    await coder.fault(Fault(mode="lose_answer", times=1))
    with pytest.raises(httpx.TransportError):
        await client.post(f"{APP}/message", json={"type": "user", "content": "say once"})
    await papi.until("stable")
    assert papi.prompts == ["say hello", "say once"]
    await coder.fault(Fault(mode="lose_answer", times=1, delay=0.5))
    with pytest.raises(httpx.ReadTimeout):
        await client.post(f"{APP}/message", json={"type": "user", "content": "say twice"}, timeout=0.4)
    await papi.until("stable")
    assert papi.prompts[2:] == ["say twice"]


async def test_task_states_may_lag(coder: CoderStandIn, client: httpx.AsyncClient) -> None:
    await coder.fault(Fault(state_lag=60))
    await create(client, "papi", "report secret plan")
    await coder.agent("papi").until("stable")
    assert (await client.get("/api/v2/tasks/me/papi")).json()["current_state"] is None
    await coder.heal()
    assert (await client.get("/api/v2/tasks/me/papi")).json()["current_state"]["state"] == "idle"


async def test_faults_over_http_are_served_only_when_allowed(coder: CoderStandIn, client: httpx.AsyncClient) -> None:
    assert (await client.put("/_stand-in/fault", json={"mode": "tired"})).status_code == 400
    assert (await client.put("/_stand-in/fault", json={"mode": "expired", "seconds": 0.2})).status_code == 204
    assert (await client.get(PATH)).status_code == 401
    await eventually(lambda: coder.present_fault.mode == "none")
    assert (await client.get(PATH)).status_code == 200
    async with CoderStandIn(StandInSettings()) as other, httpx.AsyncClient(trust_env=False) as stranger:
        assert (await stranger.put(f"{other.url}/_stand-in/fault", json={})).status_code == 404
