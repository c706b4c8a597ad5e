"""What data agents say at `/rpc` is forwarded to the pool, and its answers and refusals come back."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import httpx
import pytest
from tests.conftest import Connecting
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.rpc import Rpc, strict
from tests.requirements import requirement

from pallas_bus.ask import answer, answering
from pallas_contracts.catalog import ASK_POOL, POOL
from pallas_contracts.data_agents import PoolAnswer, PoolRequest
from pallas_contracts.errors import Conflict, Denied, NotFound, PallasError, Rejected
from pallas_contracts.turns import Principal

REGISTER = {
    "method": "server.register",
    "params": {
        "agent_id": "feature_extractor",
        "capabilities": {"tools": ["extract_features"], "resources": ["ohlcv_source"]},
        "heartbeat_interval": 60,
    },
}
BEAT = {"method": "agent.heartbeat", "params": {"agent_id": "data_cleaner", "status": "active"}}


@dataclass
class Pool:
    """Answers as the pool does: with `refusal` if there is one."""

    asked: list[PoolRequest] = field(default_factory=list[PoolRequest])
    refusal: PallasError | None = None

    async def __call__(self, question: PoolRequest) -> PoolAnswer:
        """Answer."""
        self.asked.append(question)
        if self.refusal is not None:
            raise self.refusal
        return PoolAnswer(result={"agent_id": question.params.get("agent_id"), "status": "active"})


@pytest.fixture
async def rpc(alone: Platform, http: httpx.AsyncClient) -> Rpc:
    """`/rpc` of a gateway, on a broker without a pool."""
    return Rpc(http, await alone.gateway())


@pytest.fixture
async def pool(alone: Platform, bus: Connecting) -> AsyncGenerator[Pool]:
    """A stand-in for the pool."""
    connection, pool = await bus(POOL, url=alone.url), Pool()
    service = await answering(connection)
    await answer(connection, service, ASK_POOL, pool)
    yield pool
    await service.stop()


@pytest.mark.parametrize("request_", [REGISTER, BEAT, {**BEAT, "method": "server.unregister"}], ids=str)
async def test_a_message_reaches_the_pool_with_its_caller_and_is_answered_in_its_own_kind(
    rpc: Rpc, pool: Pool, request_: dict[str, dict[str, object]]
) -> None:
    result = {"agent_id": request_["params"]["agent_id"], "status": "active"}
    assert await rpc.answer(request_) == {"result": result}
    assert await rpc.answer(strict(request_, 3)) == {"jsonrpc": "2.0", "result": result, "id": 3}
    asked = PoolRequest(
        principal=Principal(type="peer", id="127.0.0.1"), method=pool.asked[0].method, params=request_["params"]
    )
    assert pool.asked == [asked, asked]
    assert asked.method == request_["method"]


@requirement("D-6.1")
@pytest.mark.parametrize(
    ("refusal", "code", "facts"),
    [
        (
            Rejected("tools: missing", code="invalid_params", faults=[{"field": "tools", "reason": "missing"}]),
            -32602,
            1,
        ),
        (NotFound("No such agent.", code="unknown_agent"), -32601, 0),
        (Denied("It is another's.", code="not_owner"), -32003, 0),
        (Denied("You may not.", code="not_registrar"), -32003, 0),
        (Conflict("It changed.", code="conflict"), -32603, 0),
    ],
    ids=lambda value: getattr(value, "code", str(value)),
)
async def test_a_refusal_of_the_pool_is_an_error_with_its_code_and_faults(
    rpc: Rpc, pool: Pool, refusal: PallasError, code: int, facts: int
) -> None:
    pool.refusal = refusal
    error = (await rpc.answer(BEAT))["error"]
    assert error["code"] == code
    assert error["message"] == (refusal.message if code != -32603 else "Internal error")
    assert error["data"]["agent_id"] == "data_cleaner"
    assert error["data"]["code"] == refusal.code
    assert len(error["data"].get("faults", [])) == facts


async def test_without_a_pool_nobody_can_register(rpc: Rpc) -> None:
    error = (await rpc.answer(REGISTER))["error"]
    assert (error["code"], error["message"]) == (-32001, "No data-agent pool is running.")


async def test_a_registration_that_is_too_large_for_the_broker_is_refused(rpc: Rpc, pool: Pool) -> None:
    request = {"method": "server.register", "params": {"tools": ["x" * rpc.front.gateway.calls.bus.max_payload]}}
    assert (await rpc.answer(request))["error"]["code"] == -32602
    assert pool.asked == []


async def test_a_registration_that_is_nested_too_deeply_is_refused(rpc: Rpc, pool: Pool) -> None:
    body = b'{"method": "server.register", "params": {"x": ' + b"[" * 2000 + b"]" * 2000 + b"}}"
    response = await rpc.http.post(rpc.url, content=body, headers={"content-type": "application/json"})
    assert response.json()["error"]["data"] == {"reason": "it is nested too deeply"}
    assert pool.asked == []


async def test_data_agents_have_no_business_at_the_path_of_another_team(
    rpc: Rpc, pool: Pool, http: httpx.AsyncClient
) -> None:
    assert "result" in await Rpc(http, rpc.front, "data").answer(BEAT)
    assert (await Rpc(http, rpc.front, "red").answer(BEAT))["error"]["code"] == -32601
    assert len(pool.asked) == 1
