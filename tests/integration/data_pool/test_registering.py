"""Who may open a WebSocket and register, what is refused, heartbeats, and what is forgotten."""

import asyncio
import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.conftest import Connecting
from tests.integration.agent_gateway.bearers import resolving
from tests.integration.data_pool.lab import Lab, Replica, a_registration, entry_of
from tests.integration.real_parts import until
from tests.requirements import requirement
from tests.waiting import soon
from websockets.exceptions import ConnectionClosed, InvalidStatus

from data_pool.registering import registrations
from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_contracts.catalog import AGENTS, DATA_AGENTS, DATA_TEAM, HEARTBEATS, POOL, RESOLVER
from pallas_contracts.data_agents import Heartbeat
from pallas_contracts.errors import Denied, NotFound, Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal
from pallas_turns.queue import delete_consumer

ANN, BEN = Principal(type="token", id="ann"), Principal(type="token", id="ben")


def refused(handshake: pytest.ExceptionInfo[InvalidStatus]) -> tuple[int, dict[str, Any]]:
    """The status and the body of a refused handshake."""
    answered = handshake.value.response
    assert answered.body is not None
    return answered.status_code, json.loads(answered.body)


async def test_a_socket_needs_a_bearer_that_is_accepted_and_may_register(
    lab: Lab, bus: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_pool.http.agent_socket.REGISTER_SECONDS", 0.05)
    monkeypatch.setattr("data_pool.http.agent_socket.CHECK_SECONDS", 0.05)
    bearers = {"of-ann": ANN, "of-ben": BEN, "of-a-user": Principal(type="user", id="cleo")}
    async with resolving(await bus(RESOLVER), bearers):
        pool = await lab.pool(gateway_auth="required")
        for headers, status, code in (
            ({}, 401, "missing"),
            ({"Authorization": "Basic x"}, 401, "missing"),
            ({"Authorization": "Bearer wrong"}, 401, "token_not_found"),
            ({"Authorization": "Bearer of-a-user"}, 403, "not_registrar"),
        ):
            with pytest.raises(InvalidStatus) as handshake:
                await lab.connect(pool, additional_headers=headers)
            assert (refused(handshake)[0], refused(handshake)[1]["code"]) == (status, code)
        ann = await lab.connect(pool, additional_headers={"Authorization": "Bearer of-ann"})
        await ann.register(lab.agent)
        ben = await lab.connect(pool, additional_headers={"Authorization": "Bearer of-ben"})
        denied = await ben.ask("server.register", a_registration(lab.agent))
        assert (denied["error"]["code"], denied["error"]["data"]["code"]) == (-32003, "not_owner")
        for method in ("agent.heartbeat", "server.unregister"):
            denied = await ben.ask(method, {"agent_id": lab.agent, "status": "active"})
            assert denied["error"]["data"] == {"agent_id": lab.agent, "code": "not_owner"}
        bearers |= {"old": ANN.model_copy(update={"user": "cleo"}), "new": BEN.model_copy(update={"user": "cleo"})}
        for token in ("old", "new"):
            hers = await lab.connect(pool, additional_headers={"Authorization": f"Bearer {token}"})
            await hers.register("of-cleo")
        del bearers["of-ann"]
        with pytest.raises(ConnectionClosed) as closed:
            await ann.hear()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "the bearer is not accepted any more")


async def test_pages_of_other_sites_wrong_paths_and_plain_requests_are_refused(lab: Lab) -> None:
    pool = await lab.pool()
    with pytest.raises(InvalidStatus) as handshake:
        await lab.connect(pool, origin="https://evil.example")
    assert handshake.value.response.status_code == 403
    with pytest.raises(InvalidStatus) as handshake:
        await lab.connect(pool.url.replace("127.0.0.1", "evil.example"), host="127.0.0.1", port=pool.process.port)
    assert handshake.value.response.status_code == 421
    with pytest.raises(InvalidStatus) as handshake:
        await lab.connect(pool.url.replace("/rpc", "/other"))
    assert handshake.value.response.status_code == 404
    async with httpx.AsyncClient(trust_env=False) as http:
        plain = await http.post(pool.url.replace("ws://", "http://"), json={})
    assert (plain.status_code, plain.headers["upgrade"]) == (426, "websocket")


async def test_a_socket_on_which_nobody_registers_is_closed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_pool.http.agent_socket.REGISTER_SECONDS", 0.05)
    agent = await lab.connect(await lab.pool())
    with pytest.raises(ConnectionClosed) as closed:
        await agent.hear()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "no agent has registered")


async def test_a_caller_has_a_limit_of_connections_and_another_caller_one_of_its_own(lab: Lab, bus: Connecting) -> None:
    async with resolving(await bus(RESOLVER), {"of-ann": ANN, "of-ben": BEN}):
        pool = await lab.pool(gateway_auth="required", pool_agents_each="1")
        ann = {"Authorization": "Bearer of-ann"}
        first, _ = [await lab.connect(pool, additional_headers=ann) for _ in range(2)]
        with pytest.raises(InvalidStatus) as handshake:
            await lab.connect(pool, additional_headers=ann)
        assert (refused(handshake)[0], refused(handshake)[1]["code"]) == (429, "too_many")
        await lab.connect(pool, additional_headers={"Authorization": "Bearer of-ben"})
        await first.socket.close()

        async def admitted() -> bool:
            with suppress(InvalidStatus):
                return bool(await lab.connect(pool, additional_headers=ann))
            return False

        await until(admitted)


@requirement("D-6.3")
async def test_all_faults_of_a_registration_are_answered_with_their_fields(lab: Lab) -> None:
    agent = await lab.connect(await lab.pool())
    given = a_registration(lab.agent, heartbeat_interval=0, tools=["double", "half"])
    given["schema"] = {"double": {"input": {"number": "intt"}, "output": {"pattern": "string"}}}
    answered = await agent.ask("server.register", given)
    assert answered["error"]["code"] == -32602
    assert {fault["field"] for fault in answered["error"]["data"]["faults"]} == {
        "heartbeat_interval",
        "schema.half",
        "schema.double.input.number",
    }
    evil = {"type": "object", "properties": {"x": {"type": "string", "pattern": "(?=x)"}}}
    answered = await agent.ask(
        "server.register", a_registration(lab.agent, schema={"double": {"input": evil, "output": {}}})
    )
    assert [fault["field"] for fault in answered["error"]["data"]["faults"]] == ["schema.double.input"]
    assert await lab.definition() is None


@requirement("D-6.1", "D-6.2")
async def test_what_is_no_method_or_no_message_is_answered_as_json_rpc_says(lab: Lab) -> None:
    agent = await lab.connect(await lab.pool())
    await agent.register(lab.agent)
    assert (await agent.ask("agent.execute", {}))["error"]["code"] == -32601
    assert (await agent.ask("agent.heartbeat", {"agent_id": "Nobody!", "status": "ok"}))["error"]["code"] == -32602
    assert (await agent.ask("agent.heartbeat", {"agent_id": lab.agent, "status": 3}))["error"]["code"] == -32602
    unknown = await agent.ask("agent.heartbeat", {"agent_id": f"{lab.agent}-x", "status": "ok"})
    assert unknown["error"] == {
        "code": -32601,
        "message": f"No agent '{lab.agent}-x' is registered.",
        "data": {"agent_id": f"{lab.agent}-x", "code": "unknown_agent"},
    }
    for text, code in (
        ("{", -32700),
        ("[]", -32600),
        ("3", -32600),
        ('{"a":1,"a":2}', -32700),
        (f"[{'3,' * 50}3]", -32600),
        (f'{{"method": "server.register", "params": {{"agent_id": "{"x" * 5_000_000}"}}}}', -32600),
    ):
        await agent.say(text)
        assert (await agent.hear())["error"]["code"] == code
    active = {"agent_id": lab.agent, "status": "active"}
    beat = {"jsonrpc": "2.0", "method": "agent.heartbeat", "params": active}
    await agent.say(json.dumps([beat, beat]))  # notifications, which are not answered
    assert "result" in await agent.ask("agent.heartbeat", active)


async def test_a_gateway_gets_the_errors_of_its_callers(lab: Lab) -> None:
    await lab.pool(pool_registrars="token:ann,team:t-1")
    with pytest.raises(Denied, match="may not register"):
        await lab.post("server.register", a_registration(lab.agent), BEN)
    with pytest.raises(Rejected) as wrong:
        await lab.post("server.register", a_registration(lab.agent, tools=[]), ANN)
    assert "tools" in wrong.value.message
    await lab.post("server.register", a_registration(lab.agent), ANN)
    with pytest.raises(Denied, match="another caller") as foreign:
        await lab.post("server.unregister", {"agent_id": lab.agent}, BEN)
    assert foreign.value.code == "not_owner"
    with pytest.raises(NotFound):
        await lab.post("agent.heartbeat", {"agent_id": f"{lab.agent}-x", "status": "ok"}, ANN)


async def test_an_agent_that_registers_again_costs_no_write(lab: Lab, bus: Connecting) -> None:
    pool = await lab.pool()
    agent = await lab.registered(pool, heartbeat_interval=60)
    stored = await kv.get_entry(await bus(POOL), DATA_AGENTS, agent=lab.agent)
    definition = await lab.definition()
    for _ in range(3):
        agent = await lab.connect(pool)
        await agent.register(lab.agent, heartbeat_interval=60)
    assert await kv.get_entry(await bus(POOL), DATA_AGENTS, agent=lab.agent) == stored
    await agent.register(lab.agent, heartbeat_interval=61)
    assert await lab.definition() != definition


async def test_an_agent_that_registers_while_it_is_removed_is_called(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = await lab.pool(), await lab.pool()
    leaving, coming = await lab.registered(first), await lab.connect(second)

    async def remove(bus: Bus, team: str, agent: str) -> None:
        await coming.register(lab.agent)
        await lab.listed(second)
        await delete_consumer(bus, team, agent)

    monkeypatch.setattr(registrations, "delete_consumer", remove)
    assert "result" in await leaving.ask("server.unregister", {"agent_id": lab.agent})
    await until(lambda: _is_published(lab))
    turn = await lab.call()
    await coming.double()
    assert (await turn.outcome()).status == "completed"


async def _is_published(lab: Lab) -> bool:
    return await lab.definition() is not None


@requirement("D-5.3")
async def test_missing_heartbeats_show_and_the_next_one_is_enough(lab: Lab) -> None:
    pool = await lab.pool()
    agent = await lab.registered(pool, heartbeat_interval=1)
    trouble = await lab.trouble(pool, lambda trouble: trouble is not None)
    assert trouble is not None
    assert trouble.status == "degraded"
    assert trouble.reason.startswith("no heartbeat for ")
    await lab.trouble(pool, lambda trouble: trouble is not None and trouble.status == "error")
    beat = await agent.ask("agent.heartbeat", {"agent_id": lab.agent, "status": "active"})
    assert beat["result"] == {"agent_id": lab.agent, "status": "active", "next_within": 1.0}
    await lab.trouble(pool, lambda trouble: trouble is None)
    assert pool.counted("pallas_pool_heartbeats_total") == 1


@requirement("D-3.3.1")
async def test_what_an_agent_says_of_itself_shows_at_once(lab: Lab) -> None:
    pool = await lab.pool()
    agent = await lab.registered(pool)
    for word, status in (("overloaded", "degraded"), ("failed", "error"), ("dreaming", "degraded")):
        await agent.ask("agent.heartbeat", {"agent_id": lab.agent, "status": word})
        said = f"it says {word!r}"
        trouble = await lab.trouble(pool, lambda trouble, said=said: trouble is not None and trouble.reason == said)
        assert trouble is not None
        assert trouble.status == status
    await agent.ask("agent.heartbeat", {"agent_id": lab.agent, "status": "Idle"})
    await lab.trouble(pool, lambda trouble: trouble is None)


async def test_heartbeats_over_http_are_known_to_every_replica(lab: Lab) -> None:
    pools = [await lab.pool(), await lab.pool()]
    endpoint = {"url": "https://agents.example/rpc", "protocol": "json-rpc"}
    await lab.post("server.register", a_registration(lab.agent, endpoint=endpoint, heartbeat_interval=60))
    await lab.post("agent.heartbeat", {"agent_id": lab.agent, "status": "stopped"})
    for pool in pools:
        trouble = await lab.trouble(pool, lambda trouble: trouble is not None)
        assert trouble is not None
        assert trouble.reason == "it says 'stopped'"


async def test_an_agent_that_is_silent_for_long_and_not_connected_is_forgotten(
    lab: Lab, bus: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_pool.app._FORGET_EVERY", 0.1)
    pool, silent, connected = await bus(POOL), f"{lab.agent}-silent", lab.agent
    await lab.pool()
    endpoint = {"url": "https://agents.example/rpc"}
    await lab.post("server.register", a_registration(silent, endpoint=endpoint, heartbeat_interval=60))
    await lab.registered(await lab.pool(), heartbeat_interval=60)
    long_ago = utc_now() - timedelta(hours=25)
    for agent in (silent, connected):
        entry = await entry_of(pool, agent)
        assert entry is not None
        await kv.put(pool, DATA_AGENTS, entry.model_copy(update={"registered_at": long_ago}), agent=agent)
        await kv.put(pool, HEARTBEATS, Heartbeat(agent=agent, status="active", at=long_ago), agent=agent)

    async def forgotten() -> bool:
        return await entry_of(pool, silent) is None and await kv.get(pool, HEARTBEATS, agent=silent) is None

    await until(forgotten)
    assert await kv.get(lab.bus, AGENTS, team=DATA_TEAM, agent=silent) is None
    assert await entry_of(pool, connected) is not None
    turn = await lab.call()
    assert turn.request.agent == connected


async def connected_agents(replica: Replica) -> float:
    """How many agents a replica has."""
    return replica.counted("pallas_pool_connected_agents")


async def test_agents_that_come_and_go_are_counted(lab: Lab) -> None:
    pool = await lab.pool()
    agent = await lab.registered(pool)
    assert await connected_agents(pool) == 1
    await agent.socket.close()

    async def none() -> bool:
        return await connected_agents(pool) == 0

    await until(none)


async def test_registrations_at_the_same_time_stay_within_the_quota_of_their_registrar(lab: Lab) -> None:
    await lab.pool(pool_agents_each="3")
    caller = Principal(type="token", id=lab.agent)
    sent = [lab.post("server.register", a_registration(f"{lab.agent}-{n}"), caller) for n in range(10)]
    ends = await soon(asyncio.gather(*sent, return_exceptions=True))
    refused = [end for end in ends if isinstance(end, Denied)]
    assert {error.code for error in refused} == {"too_many_agents"}
    assert len(refused) == 7
    again = next(n for n, end in enumerate(ends) if not isinstance(end, Denied))
    await lab.post("server.register", a_registration(f"{lab.agent}-{again}"), caller)
